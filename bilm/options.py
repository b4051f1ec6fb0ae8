"""The options of a model and of its training, as `options.json` holds them.

A training file of allenai/bilm-tf holds every option; a prediction file may hold the
shape of the network alone. Options are checked when they are built, from a file, by
hand or from flags, by the rules of `option_rules`. Values stay as they are given: 3 is
fine where a float is expected and is written as 3 again, but 3.0 is refused where a
whole number is expected, and true is no number.
"""

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, TypeVar

from bilm import option_rules as rules
from bilm.errors import InputError, InvalidNumberOfCharacters
from bilm.jsonfiles import read_object, write_object

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CharCnnOptions:
    """The encoder that makes a token's vector from its characters (`char_cnn`).

    Attributes:
        filters: (width in characters, number of channels) of each convolution.
        embedding_dim: Size of a character's vector (`embedding.dim` in the file).
        max_characters_per_token: C, to which rows of character ids are cut and padded;
            begin- and end-of-word marks count, so a token keeps C - 2 bytes.
        n_highway: Number of highway layers.
        activation: After the convolutions, "relu" or "tanh".
    """

    filters: tuple[tuple[int, int], ...]
    embedding_dim: int
    max_characters_per_token: int
    n_highway: int = 0
    activation: str = "relu"

    def __post_init__(self) -> None:
        _check(self)
        # JSON has lists; tuples keep the options hashable and unchangeable.
        pairs = tuple((width, channels) for width, channels in self.filters)
        object.__setattr__(self, "filters", pairs)

    @property
    def n_filters(self) -> int:
        """F, the channels of all filters: what the convolutions give for a token."""
        return sum(channels for _, channels in self.filters)


@dataclass(frozen=True)
class LstmOptions:
    """The stack of LSTM layers of one direction (`lstm`).

    Attributes:
        dim: H, units of the memory cell.
        projection_dim: D, units of the output, at most `dim`; where both are equal
            the layer has no projection.
        n_layers: N, number of layers.
        cell_clip: The cell's values are clipped to +-this; None: not clipped.
        proj_clip: The projection's values are clipped to +-this; None: not clipped.
        use_skip_connections: Layers after the first add their input to their output.
    """

    dim: int
    projection_dim: int
    n_layers: int
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class ModelOptions:
    """The shape of the network: all that prediction needs.

    Attributes:
        lstm: The LSTM layers.
        char_cnn: The character encoder; None: the input is word ids.
        bidirectional: Forward and backward direction, or forward alone.

    Raises:
        InputError: An option breaks a rule or contradicts another; names all of them.
    """

    lstm: LstmOptions
    char_cnn: CharCnnOptions | None
    bidirectional: bool = True

    def __post_init__(self) -> None:
        _check(self)

    @property
    def n_directions(self) -> int:
        """K, 1 or 2."""
        return 2 if self.bidirectional else 1

    @property
    def widest_filter(self) -> int:
        """Width of the widest convolution, in characters; 0 for word input."""
        filters = self.char_cnn.filters if self.char_cnn else ()
        return max((width for width, _ in filters), default=0)

    @property
    def output_dim(self) -> int:
        """Size of an embedding of a token in context, K * D."""
        return self.n_directions * self.lstm.projection_dim


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(ModelOptions):
    """The shape of the network and how to train it.

    Attributes:
        dropout: Rate in [0, 1) of values dropped before each layer and after the last.
        all_clip_norm_val: The gradient is scaled down to this global norm.
        n_epochs: Passes over the training data.
        n_train_tokens: Tokens of an epoch, in all shards; 0: not counted yet.
        batch_size: B, rows of a batch on each device.
        n_tokens_vocab: V, words of the vocabulary; 0: not known yet.
        unroll_steps: T, tokens of a row in a batch.
        n_negative_samples_batch: Words drawn for the sampled softmax, for each
            direction; at least 1 where `sample_softmax`, V or more: the full one.
        learning_rate: Of Adagrad, the largest one of its schedule.
        lr_schedule: How it falls: "constant", "linear", "cosine" or "inverse_sqrt".
        warmup_steps: Updates in which it rises to `learning_rate` from nearly 0.
        accumulate: K, batches of `batch_size` rows on each device that one update sums
            up: K times the rows in the memory of one batch.
        reset_state: Where a row's state is zeroed: "never", or "document": where a
            blank line stands between one of its sentences and the next.
        reset_state_every: Updates after which the states of all rows are zeroed, as by
            a restart; 0: never.
        sample_softmax: Train with the sampled softmax, else with the full one.
        share_embedding_softmax: Word input only: its embedding is the softmax weights.
        freeze_embedding: Word input only: its embedding keeps its first values, also
            where it is the softmax weights.
    """

    dropout: float
    all_clip_norm_val: float
    n_epochs: int
    n_train_tokens: int = 0
    batch_size: int
    n_tokens_vocab: int
    unroll_steps: int
    n_negative_samples_batch: int = 0
    learning_rate: float = 0.2
    lr_schedule: str = "constant"
    warmup_steps: int = 0
    accumulate: int = 1
    reset_state: str = "never"
    reset_state_every: int = 0
    sample_softmax: bool = True
    share_embedding_softmax: bool = False
    freeze_embedding: bool = False

    @property
    def samples(self) -> bool:
        """Whether training samples: not where the samples would reach V."""
        return self.sample_softmax and (
            self.n_negative_samples_batch < self.n_tokens_vocab
        )

    @property
    def resets_state(self) -> bool:
        """Whether a row's state is zeroed at the end of a document."""
        return self.reset_state == "document"


AnyOptions = TypeVar("AnyOptions", bound=ModelOptions)


def training_options_from_dict(
    d: Mapping[str, Any], source: str = "options"
) -> TrainingOptions:
    """Build the options of a training from the content of a training file.

    Args:
        d: The content, nested as in the file; `n_characters` is 261, 262 or missing.
        source: What the messages call it, such as the path.

    Raises:
        InputError: Names every unknown or missing key, wrong value and contradiction.
        InvalidNumberOfCharacters: The same, where `n_characters` is among them.
    """
    return _build(TrainingOptions, d, [], source)


def model_options_from_dict(
    d: Mapping[str, Any], source: str = "options"
) -> ModelOptions:
    """Build the options of a network from the content of a prediction file.

    As `training_options_from_dict`, but keys of training are left out unread, and
    unknown ones, with which others extend these files, are logged as a warning.
    """
    return _build(ModelOptions, d, [], source)


def as_training_options(given: TrainingOptions | Mapping[str, Any]) -> TrainingOptions:
    """Give options as they are, or build them from a dict such as bilm-tf takes."""
    if isinstance(given, TrainingOptions):
        return given
    return training_options_from_dict(given)


def read_training_options(path: str | os.PathLike[str]) -> TrainingOptions:
    """Read a training file.

    Raises:
        FileNotFoundError: There is no such file; says what lies beside it.
        InputError: As `training_options_from_dict`, or the file is no JSON object.
    """
    return _build(TrainingOptions, *read_object(path), source=str(path))


def read_model_options(path: str | os.PathLike[str]) -> ModelOptions:
    """Read a prediction file as `read_training_options` reads one of training."""
    return _build(ModelOptions, *read_object(path), source=str(path))


def training_dict(options: TrainingOptions) -> dict[str, Any]:
    """Give the content of a training file (`n_characters` 261), nested as bilm-tf's."""
    return _content(options, rules.N_CHARACTERS_TRAINING)


def prediction_dict(options: ModelOptions) -> dict[str, Any]:
    """Give the content of a prediction file (`n_characters` 262), nested as bilm-tf's.

    From `TrainingOptions` it keeps the keys of training.
    """
    return _content(options, rules.N_CHARACTERS_PREDICTION)


def write_options(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write what `training_dict` or `prediction_dict` gave; whole or not at all."""
    write_object(path, content)


def replace_options(options: AnyOptions, **flags: Any) -> AnyOptions:
    """Copy the options with some fields replaced, and check the copy.

    Raises:
        InputError: There is no such field, or the new value breaks a rule.
    """
    names = [field.name for field in dataclasses.fields(options)]
    if problems := rules.find_unknown(flags, names):
        raise InputError("; ".join(problems))
    return dataclasses.replace(options, **flags)


def _keys(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Map the paths of the file to the fields of a class that hold their values."""
    prefix = {LstmOptions: "lstm.", CharCnnOptions: "char_cnn."}.get(cls, "")
    renamed = {"embedding_dim": "embedding.dim"}
    return {
        prefix + renamed.get(field.name, field.name): field
        for field in dataclasses.fields(cls)
    }


def _flat(options: Any) -> dict[str, Any]:
    """Bring options into the flat form of the rules; word input has no `char_cnn`."""
    flat: dict[str, Any] = {}
    for key, field in _keys(type(options)).items():
        value = getattr(options, field.name)
        if isinstance(value, LstmOptions | CharCnnOptions):
            flat |= _flat(value)
        elif key != "char_cnn" or value is not None:
            flat[key] = value
    return flat


def _check(options: Any) -> None:
    problems = rules.find_problems(_flat(options))
    if problems:
        raise InputError("; ".join(problems))


def _content(options: ModelOptions, n_characters: int) -> dict[str, Any]:
    flat = _flat(options)
    if options.char_cnn is not None:
        flat[rules.N_CHARACTERS_KEY] = n_characters
        flat["char_cnn.filters"] = [list(pair) for pair in options.char_cnn.filters]
    return rules.nest(flat)


def _build(
    cls: type[AnyOptions], tree: Mapping[str, Any], problems: list[str], source: str
) -> AnyOptions:
    """Build options from the content of a file that has `problems` already."""
    if not isinstance(tree, Mapping):
        raise InputError(f"{source} must be an object, not {type(tree).__name__}")
    flat = rules.flatten(tree)
    unknown = rules.find_unknown(flat)
    for key in _keys(TrainingOptions).keys() - _keys(cls).keys():
        flat.pop(key, None)
    has_characters = tree.get("char_cnn") is not None
    sections = [LstmOptions, CharCnnOptions] if has_characters else [LstmOptions]
    problems = problems + _problems_of_file([cls, *sections], flat)
    if unknown and not problems and cls is not TrainingOptions:
        logger.warning("%s: ignored: %s", source, "; ".join(unknown))
    elif problems := [*unknown, *problems]:
        wrong_number = any(p.startswith(rules.N_CHARACTERS_KEY) for p in problems)
        error = InvalidNumberOfCharacters if wrong_number else InputError
        raise error(f"{source}: {'; '.join(problems)}")
    lstm = LstmOptions(**_values(LstmOptions, flat))
    characters = _values(CharCnnOptions, flat)
    char_cnn = CharCnnOptions(**characters) if has_characters else None
    return cls(lstm=lstm, char_cnn=char_cnn, **_values(cls, flat))


def _problems_of_file(classes: Iterable[type], flat: dict[str, Any]) -> list[str]:
    """Find what these classes miss and what is wrong, with defaults put in."""
    fields = {key: field for cls in classes for key, field in _keys(cls).items()}
    required = [key for key, field in fields.items() if field.default is MISSING]
    if "sample_softmax" in fields and flat.get("sample_softmax", True) is True:
        required.append("n_negative_samples_batch")
    given = {k: f.default for k, f in fields.items() if k not in required} | flat
    return rules.find_missing(required, flat) + rules.find_problems(given)


def _values(cls: type, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the values of one class from the flat form, by the names of its fields."""
    return {f.name: flat[key] for key, f in _keys(cls).items() if key in flat}

"""Complete options for training, by name: the sizes of the published ELMo models."""

import difflib
from types import MappingProxyType

from bilm.errors import InputError
from bilm.options import CharCnnOptions, LstmOptions, TrainingOptions

# (width in characters, channels): 2,048 channels in all.
_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def _published(dim: int, projection_dim: int, n_highway: int) -> TrainingOptions:
    return TrainingOptions(
        lstm=LstmOptions(
            dim=dim,
            projection_dim=projection_dim,
            n_layers=2,
            cell_clip=3,
            proj_clip=3,
            use_skip_connections=True,
        ),
        char_cnn=CharCnnOptions(
            filters=_FILTERS,
            embedding_dim=16,
            max_characters_per_token=50,
            n_highway=n_highway,
            activation="relu",
        ),
        bidirectional=True,
        dropout=0.1,
        all_clip_norm_val=10.0,
        n_epochs=10,
        n_train_tokens=0,
        batch_size=128,
        n_tokens_vocab=0,
        unroll_steps=20,
        n_negative_samples_batch=8192,
    )


# Name -> options, whose vocabulary and training tokens are not known yet (0).
PRESETS = MappingProxyType(
    {
        "small": _published(dim=1024, projection_dim=128, n_highway=1),
        "medium": _published(dim=2048, projection_dim=256, n_highway=1),
        "original": _published(dim=4096, projection_dim=512, n_highway=2),
    }
)


def preset(name: str) -> TrainingOptions:
    """Give the options of a published size: "small", "medium" or "original".

    Raises:
        InputError: There is no preset of that name.
    """
    if name not in PRESETS:
        nearest = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
        raise InputError(
            f"unknown preset {name!r}{hint}: there are {', '.join(PRESETS)}"
        )
    return PRESETS[name]

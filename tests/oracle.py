"""The equations of a biLM in float64 and plain loops, a measure for the package.

Written from the equations alone: of the package it reads the options and nothing
else. Weights are given by their names in a checkpoint. What the package batches,
trims, shares and differentiates by hand is computed here for one token at a time.

Letters: K directions, N layers, T steps, B rows, C characters of a token, E size of a
character's embedding, F sum of the filters, D `projection_dim`, H `dim`, V words.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bilm.options import ModelOptions, TrainingOptions

Values = Mapping[str, np.ndarray]
State = list[list[tuple[np.ndarray, np.ndarray]]]  # [K][N] of c [B, H] and m [B, D]
Sample = tuple[np.ndarray, np.ndarray]  # ids [S], expected counts of all words [V]
Drop = Callable[[np.ndarray, int, int], np.ndarray]  # values, direction, layer

SUFFIXES = ("", "_reverse")  # of a batch's entries: forward, backward
BOW, EOW, PAD = 258, 259, 260


def double(values: Values) -> dict[str, np.ndarray]:
    """Weights in float64."""
    return {name: np.asarray(value, np.float64) for name, value in values.items()}


def character_ids(word: bytes, size: int) -> list[int]:
    """Training ids [C] of a token: begin, bytes, end, padding."""
    ids = [BOW, *word[: size - 2], EOW]
    return ids + [PAD] * (size - len(ids))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def clip(x: np.ndarray, limit: float | None) -> np.ndarray:
    return x if limit is None else np.minimum(np.maximum(x, -limit), limit)


def encode_token(
    options: ModelOptions, values: Values, ids: Sequence[int]
) -> np.ndarray:
    """Character ids [C] of one token to its vector [D]."""
    cnn = options.char_cnn
    assert cnn is not None
    activate = {"relu": relu, "tanh": np.tanh}[cnn.activation]
    characters = np.stack([values["lm/char_embed"][i] for i in ids])  # [C, E]
    features = []
    for number, (width, _) in enumerate(cnn.filters):
        kernel = values[f"lm/CNN/W_cnn_{number}"][0]  # [w, E, n]
        bias = values[f"lm/CNN/b_cnn_{number}"]
        windows = []
        for start in range(len(ids) - width + 1):
            window = characters[start : start + width]  # [w, E]
            windows.append(activate(np.tensordot(window, kernel, 2) + bias))
        features.append(np.max(windows, axis=0))
    vector = np.concatenate(features)  # [F]
    for layer in range(cnn.n_highway):
        vector = highway(values, f"lm/CNN_high_{layer}", vector)
    if len(vector) != options.lstm.projection_dim:
        projection = values["lm/CNN_proj/W_proj"]
        vector = vector @ projection + values["lm/CNN_proj/b_proj"]
    return vector


def highway(values: Values, name: str, x: np.ndarray) -> np.ndarray:
    """One highway layer: [F] to [F]."""
    gate = sigmoid(x @ values[f"{name}/W_carry"] + values[f"{name}/b_carry"])
    new = relu(x @ values[f"{name}/W_transform"] + values[f"{name}/b_transform"])
    return gate * new + (1 - gate) * x


def lstm_step(
    x: np.ndarray,
    c: np.ndarray,
    m: np.ndarray,
    kernel: np.ndarray,
    bias: np.ndarray,
    projection: np.ndarray | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """One step of one row: input [I], c [H] and m [D] to the new c and m."""
    i, j, f, o = np.split(np.concatenate([x, m]) @ kernel + bias, 4)
    c = clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), cell_clip)
    m = sigmoid(o) * np.tanh(c)
    if projection is not None:
        m = clip(m @ projection, proj_clip)
    return c, m


def lstm(
    inputs: np.ndarray,
    state: tuple[np.ndarray, np.ndarray],
    weights: Sequence[np.ndarray | None],
    clips: tuple[float | None, float | None],
    lengths: Sequence[int] | None = None,
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """One layer: [T, B, I] to m of each step [T, B, D], and the state after.

    Row b makes `lengths[b]` steps, all T where no lengths are given; then m repeats.
    """
    c, m = (np.array(part, np.float64) for part in state)
    outputs = np.zeros((len(inputs), *m.shape))
    for t, x in enumerate(inputs):
        for b in range(len(x)):
            if lengths is None or t < lengths[b]:
                c[b], m[b] = lstm_step(x[b], c[b], m[b], *weights, *clips)
        outputs[t] = m
    return outputs, (c, m)


def cell_name(options: ModelOptions, direction: int, layer: int) -> str:
    """Name of an LSTM cell in a checkpoint."""
    name = "lm/"
    if options.bidirectional:
        name += f"RNN_{direction}/"
    name += "rnn/"
    if options.lstm.n_layers > 1:
        name += f"multi_rnn_cell/cell_{layer}/"
    return name + "lstm_cell"


def zero_state(options: ModelOptions, rows: int) -> State:
    shapes = (rows, options.lstm.dim), (rows, options.lstm.projection_dim)
    layers = range(options.lstm.n_layers)
    return [
        [(np.zeros(shapes[0]), np.zeros(shapes[1])) for _ in layers]
        for _ in range(options.n_directions)
    ]


def no_drop(values: np.ndarray, direction: int, layer: int) -> np.ndarray:
    return values


def run_direction(
    options: ModelOptions,
    values: Values,
    direction: int,
    inputs: np.ndarray,
    state: State,
    lengths: Sequence[int] | None = None,
    drop: Drop = no_drop,
) -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """All layers of a direction: outputs [N] of [T, B, D], and its state after."""
    clips = options.lstm.cell_clip, options.lstm.proj_clip
    outputs, after = [], []
    for layer in range(options.lstm.n_layers):
        name = cell_name(options, direction, layer)
        parts = ("kernel", "bias", "projection/kernel")
        weights = [values.get(f"{name}/{part}") for part in parts]
        inputs = drop(inputs, direction, layer)
        before = state[direction][layer]
        output, final = lstm(inputs, before, weights, clips, lengths)
        if options.lstm.use_skip_connections and layer > 0:
            output = output + inputs
        outputs.append(output)
        after.append(final)
        inputs = output
    return outputs, after


def embed(
    options: ModelOptions, values: Values, batch: Values, suffix: str
) -> np.ndarray:
    """Token vectors [T, B, D] of one direction of a batch."""
    if options.char_cnn is None:
        return values["lm/embedding"][batch[f"token_ids{suffix}"]].swapaxes(0, 1)
    characters = batch[f"tokens_characters{suffix}"]  # [B, T, C]
    rows = [[encode_token(options, values, ids) for ids in row] for row in characters]
    return np.array(rows).swapaxes(0, 1)


def full_softmax_loss(
    weight: np.ndarray, bias: np.ndarray, hidden: np.ndarray, label: int
) -> float:
    """Negative log-probability of one label; hidden [D], W [V, D], b [V]."""
    logits = weight @ hidden + bias
    return log_sum_exp(logits) - logits[label]


def sampled_softmax_loss(
    weight: np.ndarray,
    bias: np.ndarray,
    hidden: np.ndarray,
    label: int,
    sample: Sample,
) -> float:
    """Loss of one label against the sampled words, itself left out of them."""
    ids, counts = sample
    words = [label] + [word for word in ids if word != label]
    logits = [weight[w] @ hidden + bias[w] - np.log(counts[w]) for w in words]
    return log_sum_exp(np.array(logits)) - logits[0]


def log_sum_exp(x: np.ndarray) -> float:
    return np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))


def expected_counts(n_words: int, n_draws: int) -> np.ndarray:
    """Chance [V] of each log-uniform id to be among `n_draws` draws."""
    ids = np.arange(n_words)
    return 1 - (1 - np.log((ids + 2) / (ids + 1)) / np.log(n_words + 1)) ** n_draws


def batch_losses(
    options: TrainingOptions,
    values: Values,
    batch: Values,
    state: State,
    samples: Sequence[Sample] = (),
    drop: Drop = no_drop,
) -> tuple[np.ndarray, State]:
    """Losses [K, T, B] of a batch as the data sets give it, and the state after.

    Args:
        options: of the model.
        values: its weights.
        batch: `token_ids`, `tokens_characters`, `next_token_id` [B, T, ...], and the
            same with `_reverse`.
        state: before the first step.
        samples: for each direction; none for the full softmax.
        drop: what dropout does.
    """
    weight = values.get("lm/softmax/W", values.get("lm/embedding"))
    bias = values["lm/softmax/b"]
    losses, after = [], []
    for direction in range(options.n_directions):
        suffix = SUFFIXES[direction]
        inputs = embed(options, values, batch, suffix)
        outputs, final = run_direction(
            options, values, direction, inputs, state, drop=drop
        )
        hidden = drop(outputs[-1], direction, len(outputs))
        labels = batch[f"next_token_id{suffix}"].swapaxes(0, 1)
        table = np.zeros(labels.shape)
        for place, label in np.ndenumerate(labels):
            if samples:
                one = sampled_softmax_loss(
                    weight, bias, hidden[place], label, samples[direction]
                )
            else:
                one = full_softmax_loss(weight, bias, hidden[place], label)
            table[place] = one
        losses.append(table)
        after.append(final)
    return np.array(losses), after

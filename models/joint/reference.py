"""What joint.onnx and match.onnx compute, in 64-bit arithmetic and without their nodes."""

import numpy as np

Q_SCALE, Q_ZERO = 0.04, -100  # steps of the int8 part's input
M8_SCALE, M8_ZERO = 0.05, 5   # and output


def wide(weights):
    return {name: value.astype(np.float64) for name, value in weights.items()}


def relu(x):
    return np.maximum(x, 0)


def quantize(x, scale, zero, name):
    """Refuses values on which a harmless float error would flip the rounding."""
    part = np.abs(x / scale % 1 - 0.5)
    if part.min() < 1e-4:
        raise SystemExit(f"error: {name}: a value lies on a rounding edge; take another --seed")
    return np.clip(np.rint(x / scale) + zero, -128, 127)


def arg_max(x, name):
    best = np.sort(x, axis=1)
    if (best[:, -1] - best[:, -2]).min() < 1e-3:
        raise SystemExit(f"error: {name}: two classes tie; take another --seed")
    return x.argmax(1)


def classifier(w, features):
    return (features @ w["w3_f16"].T + w["b3"]) * (w["class_scale"] * w["class_base"])


def joint(weights, feeds):
    w, x, state = wide(weights), feeds["x"].astype(np.float64), feeds["state_in"].astype(np.float64)
    d2 = relu(relu(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"])
    h = d2
    for _ in range(4):
        h = relu(h @ w["w_loop"] + x)
    chosen = h * w["factor"] if x[0, 0] > 0 else h + w["offset"]
    gained = chosen * w["gain_f16"]
    # Scales are f32 numbers, in the graph as here.
    q = quantize(gained, w["q_scale"], Q_ZERO, "gained") - Q_ZERO
    m8 = (q * w["q_scale"]) @ (w["w8_q"] * w["w8_scale"])
    m8 = (quantize(m8, w["m8_scale"], M8_ZERO, "m8") - M8_ZERO) * w["m8_scale"]
    middle = np.concatenate([gained, m8], 1)[:, 4:28]
    shuffled = middle.reshape(-1, 4, 6).transpose(0, 2, 1).reshape(-1, 24)
    cross = d2 @ np.concatenate([state, x[:1]]).T
    logits = classifier(w, np.concatenate([shuffled, cross], 1))
    e = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = e / e.sum(1, keepdims=True)
    return {
        "probabilities": probabilities,
        "top": arg_max(probabilities, "probabilities"),
        "rows": w["table"][feeds["indices"]],
        "state_out": state * 0.5 + x[:1],
    }


def match(weights, feeds):
    w, query = wide(weights), feeds["query"].astype(np.float64)
    q2 = relu(query @ w["w1"] + w["b1"]) @ w["w2"]
    back = q2 @ w["w2"].T
    weighted = (q2 + feeds["state_in"].astype(np.float64)) * feeds["row_weights"].astype(np.float64)[:, None]
    scores = classifier(w, np.concatenate([weighted, back[:, :10]], 1))
    return {"scores": scores, "nearest": arg_max(scores, "scores")}

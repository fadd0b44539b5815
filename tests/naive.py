"""The judge: every learner and rule once more, dense, slow and straight from the formulas, in plain numpy."""

import numpy as np

MASK = 2**64 - 1


def draw(seed, t):
    """splitmix64 of (seed, t) with Python's whole numbers, as a number in [0, 1)."""
    z = (seed + (t + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) / 2**53


class Learner:
    """Weights, a covariance (a matrix even where the real one keeps a diagonal) and AdaGrad's sums."""

    def __init__(self, name, d, **parameters):
        self.name, self.w, self.Sigma = name, np.zeros(d), np.eye(d)
        self.g_sum, self.g_squares = np.zeros(d), np.zeros(d)
        self.__dict__.update({"C": 1.0, "eta": 1.0, "gamma": 1.0, "r": 1.0, "delta": 1.0} | parameters)

    def H(self):
        return self.delta + np.sqrt(self.g_squares)

    def variance(self, x):
        return np.sum(x**2 / self.H()) if self.name.startswith("ada") else x @ self.Sigma @ x

    def update(self, x, y, p, rho, theta):
        xx, hinge, name = x @ x, max(0.0, 1 - y * p), self.name
        loss = max(0.0, rho - y * p) if name in ("cspaa", "cog-i", "acog-i", "acog-i-diag") else hinge
        g = rho if "-ii" in name and "cog" in name else 1.0
        if name == "perceptron":
            self.w = self.w + y * x * ((p >= theta) != (y > 0))
        elif loss == 0:
            return
        elif name in ("pa", "pa-i", "pa-ii", "cspaa"):
            if xx > 0:
                tau = {"pa": loss / xx, "pa-ii": loss / (xx + 1 / (2 * self.C))}.get(name, min(self.C, loss / xx))
                self.w = self.w + tau * y * x
        elif name in ("cog-i", "cog-ii"):
            self.w = self.w + self.eta * g * y * x
        elif name == "arow":
            u = self.Sigma @ x
            b = 1 / (x @ u + self.r)
            self.w = self.w + hinge * b * y * u
            self.Sigma = self.Sigma - b * np.outer(u, u)
        elif name in ("acog-i", "acog-ii"):
            u = self.Sigma @ x
            self.Sigma = self.Sigma - np.outer(u, u) / (self.gamma + x @ u)
            self.w = self.w + self.eta * g * y * self.Sigma @ x
        elif name in ("acog-i-diag", "acog-ii-diag"):
            s = np.diag(self.Sigma)
            s = s - s**2 * x**2 / (self.gamma + s * x**2)
            self.Sigma = np.diag(s)
            self.w = self.w + self.eta * g * y * s * x
        elif name in ("ada-da", "ada-md"):
            self.g_sum, self.g_squares = self.g_sum - y * x, self.g_squares + x**2
            step = self.eta / self.H()
            self.w = -step * self.g_sum if name == "ada-da" else self.w + step * y * x
        else:
            raise NotImplementedError(name)


def probability(
    rule, learner, x, p, rho, theta, q=0.1, tau=0.1, delta=0.1, delta_plus=0.1, delta_minus=0.1, b=0.1, a=-1
):
    side = delta_plus if p >= 0 else delta_minus
    if rule in ("all", "first"):
        return 1.0
    if rule == "random":
        return q
    if rule == "margin":
        return float(abs(p) <= tau)
    if rule == "positive":
        return float(p >= theta)
    if rule == "symmetric":
        return delta / (delta + abs(p))
    if rule == "asymmetric":
        return side / (side + abs(p))
    v = learner.variance(x)
    if rule == "variance":
        eta, gamma = (1.0, learner.r) if learner.name == "arow" else (learner.eta, learner.gamma)
        rest = abs(p) - (eta * max(1.0, rho) / 2) * (v * gamma / (v + gamma))
        return 1.0 if rest <= 0 else side / (side + rest)
    if rule == "discriminative":
        weight = 1 / max(1.0, x @ x) if a < 0 else a
        return b / (b + max(abs(p) - learner.eta / 2 * weight * v, 0.0))
    raise NotImplementedError(rule)


def replay(
    X, y, order, learner, rule, rule_parameters=(), theta=0.0, rho=0.0, ratio=1.0, budget=None, seed=0, averaged=False
):
    """The counts [pushed, class, asked] and the questions (round, margin, probability) of one run."""
    counts, questions, seen, past = np.zeros((2, 3, 2), int), [], {-1: 0, 1: 0}, []
    for t, i in enumerate(order):
        x, label = X[i], int(y[i])
        p = float(x @ learner.w)
        now = rho or ratio * (seen[-1] + 1) / (seen[1] + 1)
        left = budget is None or len(questions) < budget
        pi = probability(rule, learner, x, p, now, theta, **dict(rule_parameters)) if left else 0.0
        asked = draw(seed, t) < pi
        counts[int(p >= theta), label + 1, int(asked)] += 1
        past.append(learner.w)
        if asked:
            questions.append((t, p, pi))
            seen[label] += 1
            now = rho or ratio * (seen[-1] + 1) / (seen[1] + 1)
            learner.update(x, label, p, now if label > 0 else 1.0, theta)
            if averaged and len(questions) == budget:
                learner.w = np.mean(past, axis=0)
    return counts, questions

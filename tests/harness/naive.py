"""Reference implementations for tests: every learner and rule, dense and slow, straight from the formulas in numpy."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

MASK = 2**64 - 1


def draw(seed, t):
    """Return splitmix64 of (seed, t), computed with Python's integers, as a number in [0, 1)."""
    z = (seed + (t + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) / 2**53


def orthonormal(V):
    """Orthonormalize the rows (Gram-Schmidt)."""
    basis = []
    for row in V:
        for other in basis:
            row = row - (row @ other) * other
        basis.append(row / np.linalg.norm(row))
    return np.array(basis)


BIASED = ("dual", "pool", "pool-f1", "m-dual")
DUAL = {"C": 2.0, "bias": 0.4, "exponent": 0.5, "visits": 10, "memory": 2000}


class Remembering:
    """The common part of the dual learners: a bias, and a memory of earlier answers that are learned again."""

    def with_bias(self, x):
        return np.append(x, self.bias) if self.name in BIASED else x

    def visited(self, x, y):
        """Remember an answer, replacing the oldest one if the memory is full. Return it, followed by the earlier
        answers drawn to be learned again, each as [x, y, alpha]."""
        n, others = len(self.answers), min(len(self.answers), self.memory - 1)
        self.kept[n % self.memory] = [self.with_bias(x), y, 0.0]
        self.answers.append(y)
        draws = [draw(0x5DEECE66D, n * self.visits + k) for k in range(self.visits)] if others else []
        return [self.kept[(n + place) % (others + 1)] for place in (0, *(1 + int(u * others) for u in draws))]


class Learner(Remembering):
    """A binary learner: weights, a full covariance (even if the engine keeps only a part), and AdaGrad's sums."""

    def __init__(self, name, d, **parameters):
        self.name, self.w, self.Sigma, self.t = name, np.zeros(d), np.eye(d), 0
        self.g_sum, self.g_squares = np.zeros(d), np.zeros(d)
        defaults = {
            "C": 1.0,
            "eta": 1.0,
            "gamma": 1.0,
            "r": 1.0,
            "delta": 1.0,
            "m": 5,
            "seed": 0,
            "a": 1.0,
            "confidence": 0.9,
            "lag": 0.0,
            "every": 1,
            "temperature": 0.05,
            "discount": 0.99,
            "few": 5.0,
        }
        self.__dict__.update(defaults | (DUAL if name in BIASED else {}) | parameters)
        if name in BIASED:
            self.w = np.zeros(d + 1)
            self.members, self.Sigma, self.records = [np.zeros(d + 1), np.zeros(d + 1)], np.eye(d + 1), [[], []]
        if "sacog" in name:
            self.m = min(self.m, d)
            numbers = np.array([draw(self.seed, k) for k in range(self.m * d)]).reshape(self.m, d)
            self.V, self.L = orthonormal(2 * numbers - 1), np.zeros(self.m)
        if name in ("sop", "sop-diag"):
            self.Sigma = np.eye(d) / self.a
        self.answers, self.kept, self.asked, self.least = [], {}, [], 0.0

    def margin(self, x):
        if self.name == "sop":
            A = np.linalg.inv(self.Sigma)
            return float(self.w @ np.linalg.inv(A + np.outer(x, x)) @ x)
        if self.name == "sop-diag":
            return float(self.w @ np.linalg.inv(np.linalg.inv(self.Sigma) + np.diag(x**2)) @ x)
        return float(self.with_bias(x) @ self.w)

    def predict(self, x, theta):
        return 1 if self.margin(x) >= theta else -1

    def H(self):
        return self.delta + np.sqrt(self.g_squares)

    def variance(self, x):
        return np.sum(x**2 / self.H()) if self.name.startswith("ada") else x @ self.Sigma @ x

    def update(self, x, y, p, rho, theta, chance=1.0):
        self.asked.append((p, chance, y))
        xx, hinge, name = x @ x, max(0.0, 1 - y * p), self.name
        shifted = ("cspaa", "cog-i", "acog-i", "acog-i-diag", "sacog-i", "ssacog-i")
        loss = max(0.0, rho - y * p) if name in shifted else hinge
        g = rho if "-ii" in name and "cog" in name else 1.0
        if name == "perceptron":
            self.w = self.w + y * x * ((p >= theta) != (y > 0))
        elif name == "paum":
            self.w = self.w + y * x * (y * p <= rho)
        elif name == "cpa-pb":
            loss = np.sqrt(rho) - y * p
            if hinge > 0 and loss > 0 and xx > 0:
                self.w = self.w + min(self.C, loss / xx) * y * x
        elif name == "romma":
            if (p >= theta) != (y > 0) and xx > 0:
                ww = self.w @ self.w
                if xx * ww - p * p > 1e-12 * xx * ww:
                    rest = xx * ww - p * p
                    self.w = (xx * ww - y * p) / rest * self.w + ww * (y - p) / rest * x
                else:
                    self.w = y * x / xx
        elif name == "sop":
            if (p >= theta) != (y > 0):
                self.w = self.w + y * x
                self.Sigma = np.linalg.inv(np.linalg.inv(self.Sigma) + np.outer(x, x))
        elif name == "sop-diag":
            if (p >= theta) != (y > 0):
                self.w = self.w + y * x
                self.Sigma = np.linalg.inv(np.linalg.inv(self.Sigma) + np.diag(x**2))
        elif name == "cw-exact":
            phi, v, m = ndtri(self.confidence), x @ self.Sigma @ x, y * p
            if v > 0 and m < phi * np.sqrt(v):
                psi, zeta = 1 + phi**2 / 2, 1 + phi**2
                alpha = max(0.0, (-m * psi + np.sqrt(m**2 * phi**4 / 4 + v * phi**2 * zeta)) / (v * zeta))
                spread = alpha * v * phi  # sqrt(u) is published as (sqrt(spread^2 + 4 v) - spread) / 2, which cancels
                root_u = 2 * v / (np.sqrt(spread**2 + 4 * v) + spread)
                self.w = self.w + alpha * y * self.Sigma @ x
                s = np.diag(self.Sigma)
                self.Sigma = np.diag(s / (1 + alpha * phi * x * (s * x / root_u)))
        elif name == "cw-variance":
            phi, v = ndtri(self.confidence), x @ self.Sigma @ x
            if v > 0:
                b = 1 + 2 * phi * y * p
                step = max(0.0, (-b + np.sqrt(b * b - 8 * phi * (y * p - phi * v))) / (4 * phi * v))
                self.w = self.w + step * y * self.Sigma @ x
                self.Sigma = np.diag(1 / (1 / np.diag(self.Sigma) + 2 * step * phi * x**2))
        elif name == "dual":
            for answer in self.visited(x, y):
                self.w = self.moved(self.w, answer)
        elif name in ("pool", "pool-f1"):
            self.pooled(x, y)
        elif "sacog" in name:
            self.t += 1
            if (self.t - 1) % self.every == 0:
                hat, n = x / np.sqrt(self.gamma), (self.t - 1) // self.every + 1
                self.L = (1 - 1 / n) * self.L + (self.V @ hat) ** 2 / n
                self.V = orthonormal(self.V + np.outer(self.V @ hat, hat) / n)
            self.Sigma = np.eye(x.size) - self.V.T @ np.diag(self.t * self.L / (1 + self.t * self.L)) @ self.V
            if loss > 0:
                self.w = self.w + self.eta * g * y * self.Sigma @ x
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
            self.w = self.w + self.eta * g * y * (self.lag * u + (1 - self.lag) * self.Sigma @ x)
        elif name in ("acog-i-diag", "acog-ii-diag"):
            before = np.diag(self.Sigma)
            s = before - before**2 * x**2 / (self.gamma + before * x**2)
            self.Sigma = np.diag(s)
            self.w = self.w + self.eta * g * y * (self.lag * before + (1 - self.lag) * s) * x
        elif name in ("ada-da", "ada-md"):
            self.g_sum, self.g_squares = self.g_sum - y * x, self.g_squares + x**2
            step = self.eta / self.H()
            self.w = -step * self.g_sum if name == "ada-da" else self.w + step * y * x
        elif name != "given":
            raise NotImplementedError(name)

    def cost(self, y):
        negatives, positives = self.answers.count(-1), self.answers.count(1)
        more = 0.3 * self.few / (self.few + positives) if self.name == "pool-f1" else 0.0
        return max(((negatives + 1) / (positives + 1)) ** (self.exponent + more), self.least) if y > 0 else 1.0

    def moved(self, w, answer):
        """Set the alpha (dual variable) of an answer to its best value. Return the new weights."""
        x, y, alpha = answer
        if x @ x == 0:
            return w
        answer[2] = np.clip(alpha + (self.cost(y) - y * (x @ w)) / (x @ x), 0, self.C * self.cost(y))
        return w + (answer[2] - alpha) * y * x

    def pooled(self, x, y):
        """Record both members' margins for a row, let each member learn the label, and weight the members by their
        F1."""
        for record, w in zip(self.records, self.members):
            record.append((float(self.with_bias(x) @ w), y))
        visited = self.visited(x, y)
        if self.name == "pool-f1":
            self.least = weight_by_f1(self.asked, self.memory)
        for answer in visited:
            self.members[0] = self.moved(self.members[0], answer)
            row, label, s = answer[0], answer[1], np.diag(self.Sigma)
            if label * (row @ self.members[1]) < 1:
                s = s - s**2 * row**2 / (1 + s * row**2)
                self.Sigma = np.diag(s)
                self.members[1] = self.members[1] + self.cost(label) * label * s * row
        sizes, scores = [], []
        for record in self.records:
            p, labels = np.array(record).T
            ages = self.discount ** np.arange(len(p))[::-1]
            sizes.append(ages @ np.abs(p) / ages.sum())
            hits, wrong = ages @ ((p >= 0) & (labels > 0)), ages @ ((p >= 0) != (labels > 0))
            scores.append(2 * hits / (2 * hits + wrong) if hits else 0.0)
        positives = self.answers.count(1)
        trust = positives / (positives + 1)
        shares = np.exp(trust * (np.array(scores) - np.mean(scores)) / self.temperature)
        shares /= np.where(sizes, sizes, 1.0)
        self.w = sum(a * w for a, w in zip(shares / shares.sum(), self.members))


def weight_by_f1(asked, memory):
    """Return the weight of a positive that suits the best attainable F1. That F1 is estimated from the answers (margin,
    chance, label); beyond 300 answers, the latest ones are ignored until the next estimate is due."""
    n = len(asked)
    while n > 300 and n % (n // 100):
        n -= 1
    asked = asked[:n]
    positives = sum(y > 0 for _, _, y in asked)
    margins, chances, labels = np.array(asked[-memory:]).T
    weights = np.minimum(1 / chances, 100)
    unit = np.average(abs(margins), weights=weights)
    if min(positives, n - positives) < 2 or n <= 10 or unit == 0:
        return 0.0
    margins, numbers = margins / unit, np.arange(n - len(margins), n) + 1
    fitted = (numbers > 10) | (n <= 20)
    z = np.column_stack((margins * np.minimum(1, numbers / min(n, 300)) ** 0.25, np.ones(len(margins))))[fitted]
    mean = np.array([3, -0.15 - 0.8 * np.log((n - positives + 1) / (positives + 1))])
    precision, line = np.diag([1.0, 3.0]), mean
    for _ in range(25):
        p = expit(z @ line)
        slope = z.T @ ((labels[fitted] > 0) - p) - precision @ (line - mean)
        step = np.linalg.solve(z.T @ (z * (p * (1 - p))[:, None]) + precision, slope)
        line = line + step * min(1, 2 / max(abs(step).max(), 1e-9))
        if abs(step).max() < 1e-6:
            break
    p = expit(max(line[0], 0.05) * margins + line[1])
    first = np.argsort(-margins, kind="stable")
    hits, pushed, every = np.cumsum((weights * p)[first]), np.cumsum(weights[first]), weights @ p
    f1 = np.max(2 * hits / (pushed + every))
    common = np.clip((every / weights.sum() - 0.1) / 0.15, 0, 1)
    return 1 + (min(3, (2 - f1) / f1) - 1) * positives / (positives + 3) * common


class MulticlassLearner(Remembering):
    """A multi-class learner: K weight vectors and, if it is adaptive, AdaGrad's sums for each of them."""

    def __init__(self, name, d, classes, **parameters):
        self.name, self.classes, self.w = name, classes, np.zeros((classes, d + (name in BIASED)))
        self.answers, self.kept = [], {}
        self.g_sum, self.g_squares = np.zeros((classes, d)), np.zeros((classes, d))
        self.__dict__.update({"C": 1.0, "eta": 1.0, "delta": 1.0} | (DUAL if name in BIASED else {}) | parameters)

    def scores(self, x):
        terms = self.w * self.with_bias(x)
        return np.cumsum(terms, axis=1)[:, -1]  # summed from first to last: ties of the engine are ties here too

    def margin(self, x):
        best, second = np.sort(self.scores(x))[[-1, -2]]
        return float(best - second)

    def predict(self, x, theta):
        return int(np.argmax(self.scores(x))) + 1

    def H(self, k):
        return self.delta + np.sqrt(self.g_squares[k])

    def variance(self, x):
        v, top = [np.sum(x**2 / self.H(k)) for k in range(self.classes)], np.argmax(self.scores(x))
        return v[top] + max(v[:top] + v[top + 1 :])

    def moved(self, answer):
        """Set the alphas (dual variables) of an answer, one per class, to their best values, and update the weights
        accordingly."""
        x, y, alphas = answer
        right, xx = np.arange(self.classes) == y, x @ x
        if xx == 0:
            return
        frequencies = np.bincount(self.answers, minlength=self.classes)
        r = ((frequencies.max() + 1) / (frequencies[y] + 1)) ** self.exponent
        best = self.w @ x / xx + alphas
        own, wrong = best[right][0] - np.sum(alphas), np.sort(best[~right])[::-1].cumsum()
        numbers = np.arange(1, self.classes)  # the most that base - slope t + sum max(0, best - t) = 0 gives
        level = max(own - r / xx, *((own - r / xx + wrong) / (1 + numbers)), *((wrong - self.C * r) / numbers))
        answer[2] = np.where(right, 0, np.maximum(best - level, 0))
        steps = np.where(right, np.sum(answer[2] - alphas), alphas - answer[2])
        self.w = self.w + np.outer(steps, x)

    def update(self, x, y, p, rho, theta, chance=1.0):
        if self.name == "m-dual":
            for answer in self.visited(x, y - 1):
                self.moved(answer)
            return
        scores, xx, y = self.scores(x), x @ x, y - 1
        r = max((k for k in range(self.classes) if k != y), key=lambda k: (scores[k], -k))
        loss = max(0.0, 1 - (scores[y] - scores[r]))
        self.w = self.w.copy()  # a copy, because the weights of past rounds are averaged
        if self.name.startswith("m-ada"):
            for k, g in ((y, -x), (r, x)) if loss > 0 else ():
                self.g_sum[k] += g
                self.g_squares[k] += g**2
                step = self.eta / self.H(k)
                self.w[k] = -step * self.g_sum[k] if self.name == "m-ada-da" else self.w[k] - step * g
            return
        if xx == 0:
            return
        tau = {
            "m-perceptron": float(np.argmax(scores) != y),
            "m-pa": loss / (2 * xx),
            "m-pa-i": min(self.C, loss / (2 * xx)),
            "m-pa-ii": loss / (2 * xx + 1 / (2 * self.C)),
        }[self.name]
        self.w = self.w + tau * np.outer((np.arange(self.classes) == y) * 1.0 - (np.arange(self.classes) == r), x)


DEFAULTS = {
    "q": 0.1, "tau": 0.1, "delta": 0.1, "delta_plus": 0.1, "delta_minus": 0.1, "b": 0.1, "a": -1, "beta": 0.1,
    "easier": 5.0, "early": 500, "power": 2,
}  # fmt: skip


def probability(rule, learner, x, p, rho, theta, t, mistakes, parameters):
    start = {"delta": {"decaying": 2.0**14, "paced": 1.0}.get(rule, 0.1)}
    start["delta_minus"] = 0.5 if rule == "asymmetric" else 0.1
    values = DEFAULTS | start | dict(parameters)
    q, tau, delta, delta_plus, delta_minus, b, a, beta, easier, *_ = values.values()
    side = delta_plus if p >= 0 else delta_minus
    if rule in ("all", "first"):
        return 1.0
    if rule == "random":
        return q
    if rule == "margin":
        return float(abs(p) <= tau)
    if rule == "positive":
        return float(p >= theta)
    if rule == "shifted":
        return delta / (delta + 1 + abs(p))
    if rule == "decaying":
        for k in range(1, t + 1):
            delta = delta * k / (k + 1)
        return delta / (delta + abs(p))
    if rule == "error-adaptive":
        return beta * np.sqrt(1 + mistakes) / (beta * np.sqrt(1 + mistakes) + abs(p))
    if rule == "symmetric":
        return delta / (delta + abs(p))
    if rule == "paced":
        delta *= easier if p >= 0 and not hasattr(learner, "classes") else 1
        return (delta / (delta + abs(p))) ** 2
    if rule == "asymmetric":
        return side / (side + abs(p))
    v = learner.variance(x)
    if rule == "variance":
        eta, gamma = {"arow": (1.0, learner.r)}.get(learner.name, (learner.eta, learner.gamma))
        rest = abs(p) - (eta * max(1.0, rho) / 2) * (v * gamma / (v + gamma))
        return 1.0 if rest <= 0 else side / (side + rest)
    if rule == "discriminative":
        weight = 1 / max(1.0, x @ x) if a < 0 else a
        return b / (b + max(abs(p) - learner.eta / 2 * weight * v, 0.0))
    raise NotImplementedError(rule)


class Plan:
    """A plan for spending a budget. One share (`audit`) goes to audits, spread evenly over the rounds to the horizon;
    one share (`floor`) gives every item a minimum probability of being asked; the rest is spent at the given pace."""

    def __init__(self, rule, budget, horizon, audit=0.0, trains=True, pace=None, early=500, floor=0.0, power=2):
        self.audits, self.horizon, self.trains = round(audit * budget), horizon, trains
        self.wishes, self.paced, self.past = budget - self.audits, pace and round(pace * horizon), []
        self.first, self.root, self.power = (10, 2, power) if rule == "paced" else (0, 1, 1)
        self.floor = floor * budget / (1.3 * horizon)
        self.reserve = 0
        if rule == "paced" and not pace:
            labels = self.wishes - round(floor * budget)
            self.reserve = min(labels // 2, max(0, labels - early))
            self.paced = max(1, min(round(horizon / 4), 40 * (labels - self.reserve)))

    def chances(self, t, pi, predicted):
        """Return the probabilities, in round t, of an audit and of any query. pi: the rule's probability."""
        check = min(1, self.audits / (self.horizon - t)) if t < self.horizon else 0.0
        wishes, least = self.wishes, self.floor
        if self.floor:
            needed = self.floor * max(0, self.horizon - t)
            beyond = wishes - needed - 2 * np.sqrt(needed)
            if predicted >= 0:
                raised = 3 * (np.clip(beyond / (0.3 * needed), 0, 1) if needed else 1)
                least = self.floor * (raised if predicted else max(1, raised))
            least, wishes = min(1, least), int(beyond - 0.3 * needed)
        if self.paced and (self.floor or wishes > 0):
            self.past.append(np.minimum(pi ** (1 / self.root), 1 - 2**-30))
        if wishes <= 0:
            return check, 1 - (1 - check) * (1 - least)
        if self.paced:
            begins = t < self.paced and wishes > self.reserve
            left, end = (wishes - self.reserve, self.paced) if begins else (wishes, self.paced)
            if (self.reserve or self.floor) and not begins:
                end = self.horizon
            if t < 64 or t % 64 == 0 or t > end - 64 or t == self.paced:
                self.rate = min(1, left / max(1, end - t))
                self.set_easing(np.array(self.past[-256:]))
            pi = self.eased(self.past[-1], self.easing)
        if t < self.first:
            pi = 1.0
        return check, 1 - (1 - check) * (1 - least) * (1 - pi)

    def set_easing(self, recent):
        self.easing = self.easing_for(recent, self.rate)

    def easing_for(self, recent, mean):
        def excess(easing):
            return self.eased(recent, easing).mean() - mean

        return brentq(excess, -60, 60) if excess(60) > 0 else 60

    def eased(self, pi, easing):
        odds = 2**easing * pi / (1 - pi)
        return 0.1 * self.rate + (1 - 0.1 * self.rate) * (odds / (1 + odds)) ** self.power

    def spend(self, audit):
        self.audits, self.wishes = self.audits - audit, self.wishes - (not audit)
        return self.trains or not audit


class PlanOfQuestions(Plan):
    """A plan for several questions about each item, each with its own probability. rare: ask about more items for a
    question with fewer positive answers so far."""

    def __init__(self, questions, rare, *values, **more):
        super().__init__(*values, **more)
        self.found, self.own, self.rare = np.zeros(questions), np.zeros(questions), rare

    def set_easing(self, recent):
        if self.rare:
            weights = np.maximum(0.2, ((self.found + 1) / (self.found + 1).min()) ** -0.5)
            self.own = np.array(
                [self.easing_for(recent[:, [k]], max(self.rate * w, 1e-6), own=0) for k, w in enumerate(weights)]
            )
        self.easing = self.easing_for(recent, self.rate)

    def easing_for(self, recent, mean, own=None):
        self.own = self.own if own is None else own
        return super().easing_for(recent, mean)

    def eased(self, pi, easing):
        return super().eased(pi, easing + self.own).max(axis=-1)


def replay_questions(X, Y, order, learners, rule, plan, budget, seed=0):
    """Replay several questions that are asked together about each item. Return the items asked about as [(round,
    margins, probability)], and the predictions as [round][question]."""
    readings, predictions, seen = [], [], np.zeros((len(Y), 2), int)
    for t, i in enumerate(order):
        margins = [learner.margin(X[i]) for learner in learners]
        predicted = [learner.predict(X[i], 0.0) for learner in learners]
        predictions.append(predicted)
        if len(readings) == budget:
            continue
        pi = [probability(rule, each, X[i], p, 0, 0.0, t + 1, 0, ()) for each, p in zip(learners, margins)]
        check, chance = plan.chances(t, np.array(pi), 1 if min(predicted) > 0 else -1 if max(predicted) < 0 else 0)
        if draw(seed, t) < chance:
            readings.append((t, margins, chance))
            if plan.spend(draw(seed, t) < check):
                plan.found = plan.found + (Y[:, i] > 0)
                for learner, y, p, counts in zip(learners, Y[:, i], margins, seen):
                    counts[int(y > 0)] += 1
                    rho = (counts[0] + 1) / (counts[1] + 1) if y > 0 else 1.0
                    learner.update(X[i], y, p, rho, 0.0, chance)
    return readings, predictions


def replay(
    X, y, order, learner, rule, rule_parameters=(), theta=0.0, rho=0.0, ratio=1.0, budget=None, seed=0, averaged=False,
    plan=None,
):  # fmt: skip
    """Replay a stream. Return its counts [predicted, class, asked] and its queries [(round, margin, probability)]."""
    classes = getattr(learner, "classes", 0)
    counts = np.zeros((classes, classes + 1, 2) if classes else (2, 3, 2), int)
    questions, seen, past, mistakes = [], {-1: 0, 1: 0}, [], 0
    for t, i in enumerate(order):
        x, label = X[i], int(y[i])
        p, predicted = learner.margin(x), learner.predict(x, theta)
        now = rho or ratio * (seen[-1] + 1) / (seen[1] + 1)
        left = budget is None or len(questions) < budget
        pi = probability(rule, learner, x, p, now, theta, t + 1, mistakes, rule_parameters) if left else 0.0
        check, pi = plan.chances(t, pi, predicted) if plan and left else (0.0, pi)
        audit, asked = draw(seed, t) < check, draw(seed, t) < pi
        cell = (predicted - 1, label) if classes else (int(predicted > 0), label + 1)
        counts[*cell, int(asked)] += 1
        past.append(learner.w)
        if asked:
            questions.append((t, p, pi))
            if not plan or plan.spend(audit):
                seen[1 if label > 0 else -1] += 1
                mistakes += predicted != label
                now = rho or ratio * (seen[-1] + 1) / (seen[1] + 1)
                learner.update(x, label, p, now if label > 0 else 1.0, theta, pi)
            if averaged and len(questions) == budget:
                learner.w = np.mean(past, axis=0)
    return counts, questions


def replay_file(X, y, order, learner, rule, budget, seed=0):
    """Label the items of a file: the first labels along its beginning, then where they help most. Return the questions
    as [(row number, margin, probability)]."""
    queue, early, questions, seen, counts = [*order], min(budget, max(60, round(0.2 * budget))), [], 0, {-1: 0, 1: 0}
    plan = Plan(rule, early, len(queue), early=early)
    plan.first, plan.paced = 10, min(round(len(queue) / 4), 40 * early)
    for t in range(min(budget, len(queue))):
        rest, place, chance = len(queue) - t, -1, 0.0
        while place < 0 and len(questions) < early and max(seen, t) < plan.paced:
            k = max(seen, t)
            x, seen = X[queue[k]], k + 1
            rho = (counts[-1] + 1) / (counts[1] + 1)
            pi = probability(rule, learner, x, learner.margin(x), rho, 0.0, k + 1, 0, ())
            _, chance = plan.chances(k, pi, learner.predict(x, 0.0))
            place = k if draw(seed, k) < chance else -1
        if place < 0 and (draw(seed ^ 0x3C6EF372, t) < 0.1 or not counts[1]):
            place, chance = t + int(draw(seed ^ 0x51ED270B, 64 * t) * rest), (0.1 if counts[1] else 1) / rest
        elif place < 0:
            margins = np.array([learner.margin(X[i]) for i in queue[t:]])
            place, chance = t + int(np.argmin(np.where(margins < 0, -margins, margins / 1.4))), 0.9
        queue[t], queue[place] = queue[place], queue[t]
        i = queue[t]
        questions.append((i, learner.margin(X[i]), chance))
        plan.spend(False)
        counts[int(y[i])] += 1
        rho = (counts[-1] + 1) / (counts[1] + 1) if y[i] > 0 else 1.0
        learner.update(X[i], int(y[i]), questions[-1][1], rho, 0.0, chance)
    return questions


def count_bound(martingales, risk, counts):
    """Return the possible numbers of positives: the values in `counts` (in increasing order) that the mean of the
    martingales does not refute at this risk."""
    return [count for count in counts if np.mean([each(count) for each in martingales]) < 1 / risk]


def drift_capital(values, seed, bets, jumps):
    """Bet on the rank of each item among the items so far. Return the mean capital of all bets after each item."""
    held = {(k, j): np.full(len(bets), 1 / len(bets)) for k in range(values.shape[1]) for j in range(len(jumps))}
    course = []
    for t in range(len(values)):
        for (k, j), capital in held.items():
            before, own = values[:t, k], values[t, k]
            uniform = (np.sum(before > own) + draw(seed + k, t) * (np.sum(before == own) + 1)) / (t + 1)
            mixed = (1 - jumps[j]) * capital + jumps[j] * capital.mean()
            held[k, j] = mixed * (1 + bets * (uniform - 0.5))
        course.append(sum(capital.sum() for capital in held.values()) / len(held))
    return course


def share_steps(positive, pushed, chance, rounds, pushes, split):
    """Compare the share of positives before and after the first `split` answers. Return [difference in standard errors,
    share before, share after] for all items, for the pushed items, and for the others."""
    answers = [*zip(positive, pushed, 1 / chance)]
    rate = {
        kind: sum(w for p, k, w in answers if p and k == kind) / sum(w for _, k, w in answers if k == kind)
        for kind in (False, True)
    }
    halves = (answers[:split], rounds[split], pushes[split]), (
        answers[split:], rounds[-1] - rounds[split], pushes[-1] - pushes[split],
    )  # fmt: skip
    parts = {"items": [], True: [], False: []}  # the share of positives in each half, and its squared standard error
    hits = [
        sum(w * (p - rate[k]) for p, k, w in half) + rate[False] * (items - pushed) + rate[True] * pushed
        for half, items, pushed in halves
    ]
    share = sum(hits) / rounds[-1]
    for (half, items, _), positives in zip(halves, hits):
        variance = sum(w * (w - 1) * rate[k] * (1 - rate[k]) for _, k, w in half) + items * share * (1 - share)
        parts["items"].append((positives / items, variance / items**2))
        for kind in (True, False):
            own = [(p, w) for p, k, w in half if k == kind]
            size = sum(w for _, w in own)
            squared = sum(w**2 for _, w in own) * rate[kind] * (1 - rate[kind]) / size**2
            parts[kind].append((sum(w * p for p, w in own) / size, squared))
    return [[(after - before) / (old + new) ** 0.5, before, after] for (before, old), (after, new) in parts.values()]

"""The scikit-learn estimator passes scikit-learn's checks, gives the results of a replay, and works with scikit-learn's
tools."""

import contextlib
import io
import pickle
import re
import threading
from inspect import signature

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from oal_engine.estimator import OnlineActiveClassifier
from oal_engine.kernel import jit, query_rules, rows, stream
from oal_engine.kernel.algorithms import ALGORITHMS, declared, strategy
from tests.harness import ROOT

TWO = ["PAA-I", "OA3-diag"]
SEVERAL = ["MPAA-I"]


def test_a_table_is_asked_about_where_it_helps_most():
    """With the goal find the questions come from the whole table; an iterator, whose rows are not all there, has a
    stream alone."""
    X, y = data(n=400)
    asked = []
    model = OnlineActiveClassifier(algorithm="auto", budget=100)
    model.fit_stream(X, lambda row: asked.append(row) or y[row], classes=[0, 1], goal="find")
    assert 100 == len({*asked}) == len(asked)
    assert max(asked) >= 300
    with pytest.raises(ValueError, match="the goal of an iterator must be stream"):
        model.fit_stream(iter(X), y.item, classes=[0, 1], goal="find")


def data(classes=2, n=200, d=6, seed=0):
    """Return rows, and labels 0 .. classes - 1 that hyperplanes through the origin nearly separate."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    return X, (X @ rng.normal(size=(d, classes)) + 0.3 * rng.normal(size=(n, classes))).argmax(1)


def replayed(algorithm, X, y, classes, rule=None, **options):
    """Replay rows X in the engine, with labels y converted to the engine's labels. Return the replay and the
    algorithm's rule."""
    chosen, table = strategy(algorithm), rows.as_rows(X)
    learner, asks = chosen.build(table.columns, classes * chosen.multiclass)
    labels = y + 1 if chosen.multiclass else 2 * y - 1
    goal = stream.objective(rho=float(chosen.multiclass))
    return stream.replay(
        table, labels, np.arange(y.size), learner, asks if rule is None else rule, goal, log=True, **options
    ), asks


def bits(parts):
    """Return the parts of a learner or a rule, with arrays as bytes."""
    return [part.tobytes() if isinstance(part, np.ndarray) else part for part in parts]


WITH_PROBABILITIES = {  # {check of scikit-learn: why it fails}
    "check_classifiers_train": "it asks for every label, so it has probabilities, while predict compares margins"
}
EXPECTED_TO_FAIL = dict.fromkeys(("auto", "ACOG-II-diag"), WITH_PROBABILITIES)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["auto", "auto-classes", "OAAL", "ACOG-II-diag", *TWO, *SEVERAL])
def test_scikit_learn_checks_it(algorithm):
    """The estimator passes all of scikit-learn's checks, except those for array libraries other than numpy, and those
    in EXPECTED_TO_FAIL."""
    expected = EXPECTED_TO_FAIL.get(algorithm, {})
    results = check_estimator(OnlineActiveClassifier(algorithm), on_skip=None, expected_failed_checks=expected)
    assert {"passed", "skipped", "xfail"} >= {result["status"] for result in results}
    assert {"check_array_api_input"} >= {result["check_name"] for result in results if result["status"] == "skipped"}


@pytest.mark.slow
@pytest.mark.parametrize("matrix", [np.asarray, csr_array])
@pytest.mark.parametrize("algorithm", [*TWO, *SEVERAL])
def test_a_stream_equals_the_replay_to_the_bit(algorithm, matrix):
    """fit and fit_stream ask the same questions as a replay, and end with its learner, counts and rule to the bit."""
    classes = 4 if algorithm in SEVERAL else 2
    X, y = data(classes)
    X = matrix(X)
    for options in ({"budget": 30, "seed": 3, "averaged": True}, {"seed": 5}):
        expected, rule = replayed(algorithm, X, y, classes, **options)
        settings = {"random_state": options["seed"], "averaged": options.get("averaged", False)}
        model = OnlineActiveClassifier(algorithm, **settings)
        asked_rows = []

        def oracle(row, asked_rows=asked_rows):
            asked_rows.append(row)
            return f"class {y[row]}"

        streamed = clone(model).fit_stream(X, oracle, options.get("budget"), [f"class {k}" for k in range(classes)])
        fitted = model.set_params(budget=options.get("budget")).fit(X, y)
        assert expected.log[:, 0].tolist() == asked_rows
        for trained in (streamed, fitted):
            log = np.column_stack([trained.queried_, trained.margins_, trained.probabilities_])
            assert expected.log.tolist() == log.tolist()
            assert bits(expected.learner) == bits(trained.learner_)
            assert bits(rule) == bits(trained.rule_)
            assert y.size == trained.rounds_
            assert expected.counts[..., 1].tolist() == trained.counts_[..., 1].tolist()
        assert expected.counts.tolist() == fitted.counts_.tolist()
        assert [f"class {k}" for k in fitted.predict(X)] == streamed.predict(X).tolist()


EVERY_WAY = [*TWO, *SEVERAL, "auto", "auto-sum", "auto-classes", "SEL-ada"]


@pytest.mark.slow
@pytest.mark.parametrize("matrix", [np.asarray, csr_array])
@pytest.mark.parametrize("algorithm", EVERY_WAY)
def test_rows_that_come_one_at_a_time_equal_the_stream(algorithm, matrix):
    """query and learn row by row, or fit_stream over iterators, give the same bits as fit_stream over a table."""
    classes = 4 if strategy(algorithm).multiclass else 2
    X, y = data(classes)
    X, n = matrix(X), y.size
    settings = {"algorithm": algorithm, "budget": 60, "random_state": 3, "averaged": algorithm in TWO}
    expected = OnlineActiveClassifier(**settings).fit_stream(X, y.item, classes=range(classes))
    one_by_one = OnlineActiveClassifier(**settings)
    for k in range(n):
        if one_by_one.query(X[[k]], range(classes), rounds=n):
            one_by_one = pickle.loads(pickle.dumps(one_by_one)).learn(X[[k]], y[k])
    parts = iter([X[[0]], X[1:50], X[50:51], X[51:]])
    in_parts = OnlineActiveClassifier(**settings).fit_stream(parts, y.item, classes=range(classes), rounds=n)
    for model in (one_by_one, in_parts):
        for name in ("queried_", "margins_", "probabilities_", "counts_"):
            assert getattr(expected, name).tolist() == getattr(model, name).tolist()
        assert n == model.rounds_
        assert bits(expected.learner_) == bits(model.learner_)
        assert expected.predict(X).tolist() == model.predict(X).tolist()
    if matrix is np.asarray:
        rows_of_it = OnlineActiveClassifier(**settings).fit_stream(iter(X), y.item, classes=range(classes), rounds=n)
        assert bits(expected.learner_) == bits(rows_of_it.learner_)


@pytest.mark.parametrize("algorithm", ["auto", "auto-classes"])
def test_a_learner_that_visits_rows_again_goes_on(algorithm):
    """After fit, partial_fit continues the training on earlier rows, even if rows were dense and are now sparse."""
    X, y = data(3 if strategy(algorithm).multiclass else 2)
    fitted = OnlineActiveClassifier(algorithm, budget=20).fit(X, y)
    assert 20 == fitted.learner_.answers.sum()
    fitted.partial_fit(csr_array(X[:50]), y[:50])
    assert 70 == fitted.learner_.answers.sum()
    assert fitted.score(X, y) > 0.7


@pytest.mark.slow
def test_probabilities_are_those_of_the_questions():
    """predict_proba exists once there are enough labels of each class. It orders rows as the margin does, and is
    calibrated: its log loss is below the log loss of a constant share of positives."""
    X, y = data(n=4000)
    words = np.where(y > 0, "exercise", "other")
    for algorithm, positive in (("PAA-I", None), ("auto", None), ("OA3-diag", "exercise")):
        model = OnlineActiveClassifier(algorithm, budget=300, positive_class=positive)
        assert not hasattr(model, "predict_proba")
        model.fit(X, words)
        chances = model.predict_proba(X)
        np.testing.assert_allclose(chances.sum(1), 1)
        decision = model.decision_function(X)
        assert (np.diff(chances[np.argsort(decision), 1]) >= 0).all()
        assert log_loss(words, chances) < 0.8 * log_loss(words, np.full(y.size, (words == "other").mean()))
    assert not hasattr(model.set_params(budget=30).fit(X, words), "predict_proba")
    with pytest.raises(AttributeError) as error:
        model.predict_proba(X)
    assert "No probability after 30 labels" in str(error.value.__cause__)
    assert not hasattr(OnlineActiveClassifier("MPAA-I").fit(X, y), "predict_proba")
    assert not hasattr(OnlineActiveClassifier("PAA-I").partial_fit(X, y, classes=[0, 1]), "predict_proba")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [*TWO, *SEVERAL, "auto", "auto-classes"])
@pytest.mark.parametrize("classes", [2, 4])
def test_weights_are_those_of_the_decision(algorithm, classes):
    """decision_function equals the product of coef_ and the row, plus intercept_. Of several classes the one with the
    highest score is predicted."""
    if classes > 2 and not strategy(algorithm).multiclass:
        return
    X, y = data(classes)
    for positive in (None, *([0] if not strategy(algorithm).multiclass else [])):
        model = OnlineActiveClassifier(algorithm, theta=0.2, positive_class=positive)
        if strategy(algorithm).multiclass:
            model.theta = 0.0
        assert not hasattr(model, "coef_")
        model.fit(X, y)
        decision = X @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), np.squeeze(decision), rtol=1e-9, atol=1e-9)
        if classes > 2:
            assert model.decision_function(csr_array(X)).argmax(1).tolist() == model.predict(X).tolist()
        assert (1 if classes == 2 else classes, X.shape[1]) == model.coef_.shape


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [*TWO, *SEVERAL, "auto", "auto-sum", "auto-classes"])
def test_partial_fit_equals_supervised_learning(algorithm):
    """partial_fit, in portions of any size, learns the same as a replay that asks for every label."""
    classes = 3 if strategy(algorithm).multiclass else 2
    X, y = data(classes)
    expected = replayed(algorithm, X, y, classes, query_rules.build("all", strategy(algorithm).learner))[0].learner
    model = OnlineActiveClassifier(algorithm)
    for start, stop in ((0, 1), (1, 90), (90, 200)):
        model.partial_fit(X[start:stop], y[start:stop], classes=range(classes))
    assert bits(expected) == bits(model.learner_)
    assert 200 == model.rounds_


@pytest.mark.slow
def test_the_labels_of_partial_fit_reach_the_rule():
    X, y = data()
    expected = replayed("SEL-ada", X, y, 2, budget=40)[0].log
    *asked_rows, last = expected[:, 0].astype(int)
    model = OnlineActiveClassifier("SEL-ada").partial_fit(X[asked_rows], y[asked_rows], classes=[0, 1])
    assert model.rule_.mistakes > 0
    assert expected[-1, 1] == model.decision_function(X[[last]])
    assert expected[-1, 2] == model.query_probability(X[[last]])


def test_the_positive_class():
    """positive_class swaps the two classes inside the engine, while scikit-learn's order of classes stays the same."""
    X, y = data()
    words = np.where(y > 0, "exercise", "other")
    model = OnlineActiveClassifier("PAA-I", positive_class="exercise", theta=0.2).fit(X, words)
    plain = OnlineActiveClassifier("PAA-I", theta=0.2).fit(X, y)
    assert ["exercise", "other"] == model.classes_.tolist()
    assert bits(plain.learner_) == bits(model.learner_)
    assert (-plain.decision_function(X)).tolist() == model.decision_function(X).tolist()
    np.testing.assert_allclose(plain.decision_function(X), X @ plain.learner_.w - 0.2, rtol=1e-12, atol=1e-12)
    assert np.where(plain.predict(X), "exercise", "other").tolist() == model.predict(X).tolist()
    assert np.where(plain.decision_function(X) >= 0, 1, 0).tolist() == plain.predict(X).tolist()
    edge = np.zeros((1, X.shape[1]))
    plain, model = (clone(m).set_params(theta=0).fit(X, labels) for m, labels in ((plain, y), (model, words)))
    assert [1, "exercise"] == [plain.predict(edge)[0], model.predict(edge)[0]]


def first_batch(model, X, y):
    """Learn rows by `partial_fit`, whose first call sees the first half of them."""
    half = len(y) // 2
    return model.partial_fit(X[:half], y[:half], classes=[*dict.fromkeys(y)]).partial_fit(X[half:], y[half:])


def stream_of(model, X, y):
    """Learn a stream whose labels are unknown before. The classes are given in the order of their first rows."""
    return model.fit_stream(X, y.__getitem__, classes=[*dict.fromkeys(y)])


FIT = OnlineActiveClassifier.fit
POSITIVES = [  # how a model is fitted, the labels in their order, and the positive one
    (FIT, ["rare"] * 5 + ["usual"] * 15, "rare"),
    (FIT, ["usual"] * 5 + ["rare"] * 15, "usual"),
    (FIT, ["b", "a"] * 10, "b"),
    (FIT, [1] * 15 + [-1] * 5, 1),
    (FIT, [1] * 15 + [0] * 5, 1),
    (FIT, [True] * 15 + [False] * 5, True),
    (FIT, [3] * 15 + [2] * 5, 3),
    (first_batch, ["usual"] * 7 + ["rare"] * 3 + ["rare"] * 10, "rare"),
    (first_batch, ["usual"] * 10 + ["never yet"] * 10, "never yet"),
    (first_batch, ["b", "a"] * 10, "a"),
    (first_batch, [1, 0] * 10, 1),
    (stream_of, ["usual"] * 5 + ["a few"] * 15, "a few"),
    (stream_of, ["a few"] * 5 + ["usual"] * 15, "usual"),
    (stream_of, [1, 0] * 10, 1),
]


@pytest.mark.parametrize(("fit", "labels", "positive"), POSITIVES)
def test_the_rarer_word_is_positive(fit, labels, positive):
    """Of two words the rarer one is positive, and the larger one of numbers. Scores above 0 are for `classes_[1]`, as
    in all of scikit-learn."""
    X, _ = data(n=20)
    X[:, 0] = [3 if label == labels[0] else -3 for label in labels]
    model = fit(OnlineActiveClassifier("PAA-I"), X, labels)
    assert positive == model.positive_class_
    assert sorted({*labels}) == model.classes_.tolist()
    assert model.classes_[(model.decision_function(X) > 0).astype(int)].tolist() == model.predict(X).tolist()
    sign = 1 if positive == model.classes_[1] else -1
    np.testing.assert_allclose(sign * model.decision_function(X), X @ model.learner_.w)
    again = model.fit_stream(X, labels.__getitem__)  # the classes of the last fit, and its positive one
    assert positive == again.positive_class_


def test_what_a_positive_weighs():
    """The weight rho of a positive is estimated by default, set to a number, or computed from y or from the cost
    weights. If an algorithm's paper fixes rho, the setting is ignored."""
    X, y = data()
    ratio = (y == 0).sum() / (y == 1).sum()
    for algorithm, settings, rho in (
        ("PAA-I", {}, 0),
        ("PAA-I", {"rho": 7}, 7),
        ("PAA-I", {"rho": "auto"}, ratio),
        ("PAA-I", {"rho": "auto", "alpha_p": 0.8}, 0.8 / (1 - 0.8) * ratio),
        ("PAA-I", {"metric": "cost", "c_p": 0.8}, 0.8 / (1 - 0.8)),
        ("SOAL-diag", {"rho": 7}, 1),
    ):
        goal = OnlineActiveClassifier(algorithm, **settings).fit(X, y).objective_
        assert (rho, settings.get("alpha_p", 0.5) / (1 - settings.get("alpha_p", 0.5))) == (goal.rho, goal.ratio)


def test_it_is_cloned_and_tuned():
    """The algorithm and its parameters can be cloned, shown, set and tuned like the estimator's other parameters."""
    X, y = data()
    model = OnlineActiveClassifier(algorithm="OA3-diag", eta=0.1)
    assert model.get_params() == clone(model).get_params()
    assert "OnlineActiveClassifier(algorithm='OA3-diag', eta=0.1)" == repr(model)
    assert 0.1 == model.fit(X, y).learner_.eta
    assert 0.1 == model.eta
    model.eta = 0.3
    assert 0.3 == clone(model).eta == model.get_params()["eta"] == clone(model).fit(X, y).learner_.eta
    assert 2 == model.set_params(eta=2, budget=7).fit(X, y).learner_.eta
    assert 7 == len(model.queried_)
    assert 1 == model.set_params(eta=None).fit(X, y).learner_.eta
    grid = [
        {"algorithm": ["OA3-diag"], "eta": [1e-9, 1.0]},
        {"algorithm": ["pa-i + symmetric"], "delta": [0.5], "eta": [None]},
        {"algorithm": ["MPAA-I"], "learner.C": [2], "eta": [None]},
    ]
    search = GridSearchCV(model, grid, cv=3, scoring="balanced_accuracy", error_score="raise").fit(X, y)
    assert 4 == len(search.cv_results_["params"])
    assert [0.5, 2] == [
        OnlineActiveClassifier("pa-i + symmetric", delta=0.5).fit(X, y).rule_.delta,
        clone(model).set_params(**{"algorithm": "MPAA-I", "learner.C": 2}).fit(X, y).learner_.C,
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_clone_begins_anew_and_learning_changes_no_input(algorithm):
    """A clone of a fitted model is not fitted; fitted to the same rows, in one column or several and read-only, it has
    the same bits and leaves the rows as they were."""
    for columns in (1, 6):
        X, y = data(n=40, d=columns)
        X.flags.writeable = y.flags.writeable = False
        before = X.tobytes(), y.tobytes()
        with jit.form(jit.PLAIN):
            model = OnlineActiveClassifier(algorithm, budget=20).fit(X, y)
            other = clone(model)
            assert not hasattr(other, "classes_")
            assert bits(model.learner_) == bits(other.fit(X, y).learner_)
        assert (X.tobytes(), y.tobytes()) == before


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng, lambda seed: np.random.seed(seed)])
def test_random_states_give_seeds(make):
    """A RandomState, a Generator or numpy's global one gives each fit a seed of its own, the same ones in each run."""
    X, y = data()
    runs = []
    for _ in range(2):
        model = OnlineActiveClassifier("PAA-I", random_state=make(3))
        runs.append([model.fit(X, y).queried_.tolist() for _ in range(2)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


@pytest.mark.parametrize("seed", [7, -1, np.int32(7), np.uint8(7), 2**64 + 7, 10**30, True])
def test_any_integer_is_a_seed(seed):
    X, y = data()
    first, second = (OnlineActiveClassifier("PAA-I", random_state=seed).fit(X, y).queried_.tolist() for _ in range(2))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["OA3-diag", "SOA3", "MD-AMD"])
def test_a_stored_model_goes_on_with_the_same_bits(algorithm, tmp_path):
    X, y = data()
    model = OnlineActiveClassifier(algorithm).fit(X, y)
    joblib.dump(model, tmp_path / "model")
    again = [pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model", mmap_mode="r")]
    for other in again:
        assert bits(model.learner_) == bits(other.learner_)
    for other in (model, *again):
        other.partial_fit(X, 1 - y)
    for other in again:
        assert bits(model.learner_) == bits(other.learner_)
        assert bits(model.rule_) == bits(other.rule_)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["MD-AMD", "SOA3"])
def test_threads_share_a_model(algorithm):
    X, y = data(n=2000)
    model = OnlineActiveClassifier(algorithm).fit(X, y)
    before, portions = bits(model.learner_), [X, X[::-1].copy(), -X]
    expected = [model.query_probability(portion).tolist() for portion in portions]
    probabilities = {}

    def work(k):
        probabilities[k] = [model.query_probability(portions[k]).tolist() for _ in range(20)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(once == expected[k] for k, times in probabilities.items() for once in times)
    assert before == bits(model.learner_)


def test_no_parameter_is_hidden_by_a_setting():
    settings = signature(OnlineActiveClassifier).parameters.keys()
    for name, entry in ALGORITHMS.items():
        assert not settings & declared(entry.learner, entry.rule).keys(), name


X, Y = data()
MODEL = OnlineActiveClassifier


def asking():
    """Return a model that waits for the label of its first row."""
    model = MODEL("PA")
    assert model.query(X[0], [0, 1])
    return model


ERRORS = [
    (lambda: MODEL("XYZ").fit(X, Y), r"algorithm must be one of auto, .*\. Got XYZ\."),
    (lambda: MODEL().fit(X, np.column_stack([Y, 1 - Y])), r"should be a 1d array, got an array of shape .* instead\."),
    (lambda: MODEL("PA-I", eta=1).fit(X, Y), r"PA-I has no parameter eta\. It has C\."),
    (lambda: MODEL(budget=-1).fit(X, Y), r"budget of OnlineActiveClassifier must be a whole number >= 0\. Got -1\."),
    (lambda: MODEL(random_state="x").fit_stream(X, Y.item, classes=[0, 1]),
     r"random_state of OnlineActiveClassifier must be an integer, a RandomState, a Generator or None\. Got x\."),
    (lambda: MODEL(rho="high").fit(X, Y), r"rho must be auto, laplace or a number\. Got high\."),
    (lambda: MODEL(metric="f1").fit(X, Y), r"metric must be one of sum, cost\. Got f1\."),
    (lambda: MODEL(rho="auto").partial_fit(X, Y, classes=[0, 1]),
     r"rho auto needs items of both classes\. Use rho laplace or a number\."),
    (lambda: MODEL(positive_class="x").fit(X, Y), r"positive_class must be 0 or 1\. Got x\."),
    (lambda: MODEL("MPAA-I", positive_class=1).fit(X, Y), r"MPAA-I has no positive_class\. Got 1\."),
    (lambda: MODEL("OAAL").fit(X, np.arange(200) % 3),
     r"Only binary classification is supported by OAAL, more classes by auto-classes, .*, MMD\. Got 3 classes\."),
    (lambda: MODEL().fit(X, Y * 0), r"a classifier needs 2 to 127 classes\. Got 1 class\."),
    (lambda: MODEL("MPAA").partial_fit(X, Y, classes=range(200)), r"2 to 127 classes\. Got 200 classes\."),
    (lambda: MODEL().partial_fit(X, Y), r"classes must be given at first: all labels that will occur\. Got None\."),
    (lambda: MODEL("PA").query(X[:2], [0, 1]), r"query and learn take one row at a time\. Got 2 rows\."),
    (lambda: MODEL("PA").fit(X, Y).learn(X[0], 1), r"learn needs a row that query asked about\. Use partial_fit .*\."),
    (lambda: asking().query(X[1]), r"the row before was asked about: learn its label first\."),
    (lambda: asking().learn(X[1], 1), r"learn must get the row that query asked about\. Got another row\."),
    (lambda: asking().learn(X[0], None), r"a label must be one of 0, 1\. Got None\."),
    (lambda: MODEL("PA").fit_stream(iter([]), Y.item, classes=[0, 1]),
     r"a stream needs at least one row\. Got none\."),
    (lambda: MODEL("PAA-I").fit(X, Y).partial_fit(X, Y, classes=[0, 2]),
     r"classes must be the same as in the first call, 0, 1\. Got 0, 2\."),
    (lambda: MODEL("PAA-I").fit_stream(X, lambda row: "maybe", classes=["no", "yes"]),
     r"a label must be one of no, yes\. Got maybe\."),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_name_what_is_allowed_and_what_came(call, message):
    """A wrong value is refused with a one-sentence error when the estimator is used."""
    with pytest.raises(ValueError, match=f"{message}$"):
        call()


def test_the_example_of_the_guide_runs():
    """The five lines of docs/researchers.md print what their comment says."""
    section = (ROOT / "docs" / "researchers.md").read_text(encoding="utf-8").split("## A scikit-learn estimator")[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert 5 == len([line for line in code.splitlines() if line])
    assert re.search(r"# (.*)$", code)[1] == printed.getvalue().strip()


def test_an_endless_stream_is_asked_about_one_row_in_forty():
    """Without the number of rows, `auto` asks about the first ten rows, and then at a steady pace."""
    X, y = data(n=1200)
    model = MODEL(budget=20)
    asked = [k for k, (x, label) in enumerate(zip(X, y)) if model.query(x, [0, 1]) and model.learn(x, label)]
    assert [*range(10)] == asked[:10]
    assert len(asked) == 20
    assert 400 < asked[-1] < 1000

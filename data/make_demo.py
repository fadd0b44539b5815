"""Write the two synthetic demo streams, tweets.csv and abstracts.csv, from the phrases in phrases.toml.

Run `python data/make_demo.py`: the same seeds give the same bytes on every platform, because every choice is drawn from
`Random.random()`, the one method whose sequence Python promises to keep.
"""

import csv
import io
import math
import re
import tomllib
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import NormalDist

HERE = Path(__file__).parent
MOODS = re.compile(
    r"\b(life|happ\w*|mood\w*|love\w*|content|satisf\w*)\b"
)  # words of messages that are easily mistaken for the rare class
PHRASES = tomllib.loads((HERE / "phrases.toml").read_text(encoding="utf-8"))
ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{(\w+|\d+-\d+)\}")


# Chance: all of it through rng.random()


def chance(rng, probability):
    return rng.random() < probability


def pick(rng, options):
    return options[int(rng.random() * len(options))]


def between(rng, low, high):
    """Draw a whole number from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def expand(rng, text, slots):
    """Replace every [a|b] with one of its alternatives and every {slot} with a line of that slot, down to plain
    text."""
    while "[" in text:
        text = ALTERNATIVES.sub(lambda match: pick(rng, match[1].split("|")), text)
    return SLOT.sub(lambda match: fill(rng, match[1], slots), text)


def fill(rng, name, slots):
    if "-" in name:
        low, high = name.split("-")
        return str(between(rng, int(low), int(high)))
    return expand(rng, pick(rng, slots[name].strip().splitlines()), slots)


# Tweets

TWEETS = 4000
SATISFACTION_SHARE = 1 / 12
TEMPTING_SHARE = 0.11
SUMMED_UP_SHARE = 0.7
TOPICS = list(PHRASES["tweets"]["topics"])
ABBREVIATIONS = {
    "you": "u",
    "your": "ur",
    "because": "bc",
    "though": "tho",
    "tomorrow": "tmrw",
    "people": "ppl",
    "really": "rly",
    "please": "pls",
    "with": "w/",
    "i'm": "im",
    "don't": "dont",
    "can't": "cant",
    "that's": "thats",
    "and": "&",
    "about": "abt",
    "everyone": "every1",
}


def tweets(seed=1):
    """Generate rows (id, text, label, llm) of short messages. Topics and the frequency of the rare class change along
    the stream. llm: the answer of a simulated language model."""
    rng = Random(seed)
    rows, bodies = [], set()
    for number in range(TWEETS):
        position = number / TWEETS
        satisfaction = chance(rng, SATISFACTION_SHARE * season(position, 0.35))
        while True:
            body, text = (life_as_a_whole if satisfaction else daily_life)(rng, position)
            if body not in bodies and 30 <= len(text) <= 240:
                break
        bodies.add(body)
        rows.append((f"t{number + 1:04}", text, "satisfaction" if satisfaction else "other"))
    own = Random(seed + 1)
    return [(*row, judged(own, row[1], row[2] != "other")) for row in rows]


def judged(rng, text, satisfaction):
    """Draw the answer of a simulated language model, "yes" or "no", about a message. It misses an eighth of the rare
    class, and says "yes" to a quarter of the other messages that mention a mood or somebody's life."""
    ambiguous = MOODS.search(text.lower()) is not None
    return "yes" if chance(rng, 0.88 if satisfaction else 0.25 if ambiguous else 0.03) else "no"


def season(position, peak):
    """Return a weight from 0.5 to 1.5: highest where the position in the stream (0 to 1) is near the peak."""
    return 1.5 - min(1, 2 * abs(position - peak))


def life_as_a_whole(rng, position):
    kind = "satisfied" if chance(rng, 0.7 - 0.35 * position) else "dissatisfied"
    said = drawn(rng, PHRASES["tweets"][kind]["lines"], 1)
    if chance(rng, SUMMED_UP_SHARE):
        said += drawn(rng, PHRASES["tweets"][kind]["summed_up"], 1)
    if chance(rng, 0.1):
        said = drawn(rng, PHRASES["tweets"]["topics"][topic_at(rng, position)], 1) + said
    faces, tags = ("{joy}", "{bright_tags}") if kind == "satisfied" else ("{gloom}", "{dark_tags}")
    return dressed(rng, joined(rng, said), "{tail}", faces, pick(rng, (tags, "{chat_tags}")))


def daily_life(rng, position):
    topic = topic_at(rng, position)
    lines, tags = PHRASES["tweets"]["topics"][topic], PHRASES["tweets"]["tags"][topic]
    if chance(rng, TEMPTING_SHARE):
        said = drawn(rng, PHRASES["tweets"]["tempting"]["lines"], 1) + drawn(rng, lines, pick(rng, (0, 0, 1)))
        tags = pick(rng, (tags, "{chat_tags}", "{bright_tags}", "{dark_tags}"))
    else:
        said = drawn(rng, lines, pick(rng, (1, 2, 2, 2, 2, 2, 3)))
    return dressed(rng, joined(rng, said), pick(rng, ("{tail}", "{shout}")), "{shrug}", tags)


def topic_at(rng, position):
    heights = list(accumulate(season(position, place / len(TOPICS)) for place in range(len(TOPICS))))
    return TOPICS[bisect_right(heights, rng.random() * heights[-1], hi=len(TOPICS) - 1)]


def drawn(rng, lines, count):
    """Draw `count` different lines of a text, and expand each to plain text."""
    lines, chosen = lines.strip().splitlines(), []
    for _ in range(count):
        chosen.append(pick(rng, [line for line in lines if line not in chosen]))
    return [tidy(expand(rng, line, TWEET_SLOTS)) for line in chosen]


def joined(rng, sentences):
    """Join sentences into one text. Each sentence but the last gets an end mark, unless it already ends in ? or !."""
    *before, last = sentences
    stops = ("" if sentence[-1] in "?!" else pick(rng, (".", ".", ".", "...", "!")) for sentence in before)
    return " ".join([*map(str.__add__, before, stops), last])


def dressed(rng, body, tail, faces, tags):
    """Return one message as (body, text). The text is the body as an author would post it, with an opener or tags at
    times."""
    sentences = [body]
    if chance(rng, 0.1):
        sentences.insert(0, tidy(fill(rng, "milestone", TWEET_SLOTS)))
    elif chance(rng, 0.2):
        sentences[0] = fill(rng, "opener", TWEET_SLOTS) + " " + body
    if chance(rng, 0.22):
        sentences.append(expand(rng, tail, TWEET_SLOTS))
    text = typed(rng, joined(rng, sentences))
    if chance(rng, 0.07):
        text = fill(rng, "handle", TWEET_SLOTS) + " " + text
    if chance(rng, 0.3):
        text += " " + expand(rng, faces, TWEET_SLOTS) * pick(rng, (1, 1, 1, 1, 2, 3))
    if chance(rng, 0.2):
        text += " " + expand(rng, tags, TWEET_SLOTS)
    if chance(rng, 0.03):
        text += " " + fill(rng, "link", TWEET_SLOTS)
    return body, text


def tidy(text):
    """Remove the spaces and stops that empty alternatives leave behind, and a stop at the end."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ([.,?!])(?=\s|$)", r"\1", text)
    text = re.sub(r"([.,?!])[.,](?=\s|$)(?<!\.\.\.)", r"\1", text)
    return re.sub(r"(?<!\.)\.$", "", text)


def typed(rng, text):
    """Give a text one author's typing habits, drawn at random: capitals, abbreviations, a stretched word, a typo."""
    words = text.split(" ")
    if chance(rng, 0.18):
        words = [ABBREVIATIONS.get(word, word) for word in words]
    if chance(rng, 0.12):
        words = [stretched(rng, word) for word in words]
    if chance(rng, 0.14):
        place = between(rng, 0, len(words) - 1)
        words[place] = mistyped(rng, words[place])
    text = " ".join(words)
    return sentence_case(text) if chance(rng, 0.3) else text


def stretched(rng, word):
    return word + word[-1] * between(rng, 1, 4) if word in {"so", "ugh", "yay", "really", "happy", "omg"} else word


def mistyped(rng, word):
    if len(word) < 5 or not word.isalpha():
        return word
    place = between(rng, 1, len(word) - 3)
    return pick(
        rng,
        (
            word[:place] + word[place + 1] + word[place] + word[place + 2 :],
            word[:place] + word[place + 1 :],
            word[:place] + word[place] + word[place:],
        ),
    )


def sentence_case(text):
    text = re.sub(r"(^|[.?!] )(?!https)([a-z])", lambda match: match[1] + match[2].upper(), text)
    return re.sub(r"\bi\b(?=[ ']|$)", "I", text)


TWEET_SLOTS = {
    name: text
    for table in ("slots", "satisfaction_slots", "tempting_slots", "topic_slots")
    for name, text in PHRASES["tweets"][table].items()
}


# Abstracts

ABSTRACTS = 1500
HEART_SHARE = 1 / 10
PARTS = {"why": 0.9, "aim": 0.75, "methods": 1, "exclusion": 0.25, "results": 1, "aside": 0.45}
THEMES = {
    label: [theme for theme in PHRASES["abstracts"]["themes"] if (theme["field"] == "cardiology") == (label == "heart")]
    for label in ("heart", "other")
}


def abstracts(seed=8):
    """Generate rows (id, title, abstract, label) of invented studies, whose numbers are consistent with each other."""
    rng = Random(seed)
    rows, titles = [], set()
    for number in range(ABSTRACTS):
        label = "heart" if chance(rng, HEART_SHARE) else "other"
        while True:
            title, abstract = study(rng, pick(rng, THEMES[label]), PHRASES["abstracts"]["extras"][label])
            if title not in titles and 3 <= len(re.findall(r"\.(?=\s|$)", abstract)) <= 6:
                break
        titles.add(title)
        rows.append((f"a{number + 1:04}", title, abstract, label))
    return rows


def study(rng, theme, extras):
    """Generate one study as (title, abstract), of a design for which the theme has the data."""
    design = pick(rng, [design for design, (_, needs, _) in DESIGNS.items() if needs in theme])
    numbers, _, unfit = DESIGNS[design]
    figures, favourable = numbers(rng, theme)
    slots = PHRASES["abstracts"]["slots"] | {name: str(figure) for name, figure in figures.items()}
    told_once = {name: expand(rng, theme[name], slots) for name in theme if isinstance(theme[name], str)}
    told_once["follow"] = fill(rng, "follow", slots)
    for pair, (first, second) in {"arms": ("treatment", "versus"), "tests": ("test", "target")}.items():
        if pair in told_once:
            told_once[first], told_once[second] = told_once[pair].split(" > ")
    slots |= told_once | PHRASES["abstracts"]["designs"][design] | extras
    parts = [part for part, share in PARTS.items() if part not in unfit and chance(rng, share)]
    parts.append("yes" if favourable else "no")
    return capitalised(fill(rng, "title", slots)), " ".join(capitalised(fill(rng, part, slots)) for part in parts)


def capitalised(text):
    return re.sub(r"(^|[.] )([a-z])", lambda match: match[1] + match[2].upper(), text)


def trial_numbers(rng, theme):
    """Draw the events in two arms, and compute the risk ratio with its log-normal interval. Return the figures by slot,
    and whether the treatment is significantly better."""
    n1 = between(rng, 60, 700)
    n2 = n1 + between(rng, -4, 4)
    rate = drawn_rate(rng, theme)
    k1 = max(3, round(n1 * rate * between(rng, 50, 112) / 100))
    k2 = max(4, round(n2 * rate))
    ratio = k1 * n2 / (n1 * k2)
    error = math.sqrt(1 / k1 - 1 / n1 + 1 / k2 - 1 / n2)
    figures = {"N": n1 + n2, "N1": n1, "N2": n2, "K1": k1, "K2": k2, "P1": percent(k1, n1), "P2": percent(k2, n2)}
    figures |= {"RATIO": f"{ratio:.2f}"} | interval(math.log(ratio), error, lambda bound: f"{math.exp(bound):.2f}")
    return figures, ratio < 1 and is_significant(math.log(ratio), error)


def score_numbers(rng, theme):
    """Draw the means of a scale in two arms, and compute their difference with its interval. Return the figures by
    slot, and whether the treatment is significantly better."""
    scores = theme["scores"]
    n1 = between(rng, 28, 210)
    n2 = n1 + between(rng, -3, 3)
    low, high = scores["range"]
    gain = round((high - low) * between(rng, -5, 75) / 100, 1)
    better, worse = (high, high - gain) if scores["better"] == "up" else (low, low + gain)
    deviation = scores["deviation"]
    error = deviation * math.sqrt(1 / n1 + 1 / n2)
    figures = {
        "N": n1 + n2,
        "N1": n1,
        "N2": n2,
        "M1": f"{better:.1f}",
        "M2": f"{worse:.1f}",
        "SD1": f"{deviation * 0.97:.1f}",
        "SD2": f"{deviation * 1.04:.1f}",
        "DIFF": f"{better - worse:.1f}",
        "UNIT": scores["unit"],
    }
    figures |= interval(better - worse, error, lambda bound: f"{round(bound, 1) + 0:.1f}")
    return figures, gain > 0 and is_significant(gain, error)


def cohort_numbers(rng, theme):
    """Draw exposure, events and a hazard ratio, whose interval narrows with the number of events. Return the figures by
    slot, and whether the ratio is significant."""
    n = between(rng, 180, 6000)
    exposed = round(n * between(rng, 80, 440) / 1000)
    events = max(12, round(n * drawn_rate(rng, theme)))
    hazard = math.log(between(rng, 92, 240) / 100)
    share = exposed / n
    error = 1 / math.sqrt(events * share * (1 - share))
    figures = {
        "N": n,
        "N1": exposed,
        "SHARE": percent(exposed, n),
        "K": events,
        "RATE": percent(events, n),
        "YEARS": f"{between(rng, 12, 96) / 10:.1f}",
        "RATIO": f"{math.exp(hazard):.2f}",
    }
    figures |= interval(hazard, error, lambda bound: f"{math.exp(bound):.2f}")
    return figures, is_significant(hazard, error)


def diagnostic_numbers(rng, theme):
    n = between(rng, 90, 1400)
    confirmed = round(n * between(rng, 90, 460) / 1000)
    sensitivity, specificity = between(rng, 56, 98), between(rng, 54, 97)
    area = min(0.99, (sensitivity + specificity) / 200 + 0.03)
    figures = {
        "N": n,
        "K": confirmed,
        "SHARE": percent(confirmed, n),
        "SENS": sensitivity,
        "SPEC": specificity,
        "AUC": f"{area:.2f}",
    }
    return figures, area > 0.78


def trend_numbers(rng, theme):
    low, high = theme["rate"]
    rate = between(rng, 12, 300)
    figures = {
        "N": between(rng, 900, 48000),
        "R_LOW": rate,
        "R_HIGH": round(rate * between(rng, 115, 190) / 100),
        "P_LOW": between(rng, max(1, low - 2), low + 2),
        "P_HIGH": between(rng, high - 1, high + 4),
        "PVALUE": pick(rng, ("P < 0.001", "P = 0.002", "P = 0.01", "P = 0.03")),
    }
    return figures, True


def interview_numbers(rng, theme):
    return {"N_SMALL": between(rng, 11, 46)}, True


def drawn_rate(rng, theme):
    low, high = theme["rate"]
    return between(rng, 10 * low, 10 * high) / 1000


def percent(part, whole):
    return f"{100 * part / whole:.1f}"


def interval(estimate, error, printed):
    """Return the 95 % confidence interval and the two-sided P value of a normal estimate, as text by slot. error: its
    standard error. printed: function that formats an end of the interval."""
    p = 2 * NormalDist().cdf(-abs(estimate) / error)
    p_value = "P < 0.001" if p < 0.001 else f"P = {p:.3f}" if p < 0.01 else f"P = {min(p, 0.99):.2f}"
    return {"LOW": printed(estimate - 1.96 * error), "HIGH": printed(estimate + 1.96 * error), "PVALUE": p_value}


def is_significant(estimate, error):
    return abs(estimate) > 1.96 * error


# By design: the function that draws its numbers, the entry that a theme needs for it, unsuitable parts of an abstract
DESIGNS = {
    "trial": (trial_numbers, "arms", ()),
    "score": (score_numbers, "scores", ()),
    "cohort": (cohort_numbers, "exposure", ("exclusion",)),
    "diagnostic": (diagnostic_numbers, "tests", ("exclusion", "aside")),
    "trend": (trend_numbers, "about", ("exclusion", "aside")),
    "interviews": (interview_numbers, "voices", ("exclusion", "aside")),
}


# Files

FILES = {
    "tweets.csv": (("id", "text", "label", "llm"), tweets),
    "abstracts.csv": (("id", "title", "abstract", "label"), abstracts),
}


def csv_bytes(header, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode("utf-8")


if __name__ == "__main__":
    for name, (header, rows) in FILES.items():
        (HERE / name).write_bytes(csv_bytes(header, rows()))

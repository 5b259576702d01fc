"""Kinds of stories that ask for a small inference: counting, ordering, dates, opposites."""

from __future__ import annotations

from collections.abc import Sequence

from mlm_consistency.pretraining.lexicon import (
    BYSTANDERS,
    COUNTED,
    DAYS,
    DIGITS,
    EVENTS,
    MONTHS,
    NAMES,
    NUMBER_WORDS,
    OPPOSITES,
    PERSON_SCALES,
    PLACES,
    THING_SCALES,
    THINGS,
    WOMEN,
)
from mlm_consistency.pretraining.story_draft import Dice, Draft

GAINS = ("bought {} more", "found {} more", "got {} more", "picked {} more")
LOSSES = ("ate {} of them", "lost {} of them", "sold {} of them", "gave away {} of them")

ADJECTIVES = tuple(word for left, right, _ in OPPOSITES for word in (left, right))

DAY_STEPS = (
    ("tomorrow", 1),
    ("the day after tomorrow", 2),
    ("in three days", 3),
    ("one day from now", 1),
    ("in two days", 2),
)
MONTH_STEPS = (
    ("next month", 1),
    ("one month from now", 1),
    ("in two months", 2),
    ("two months from now", 2),
)


def counting(dice: Dice) -> Draft:
    """How many are left? Looked up, changed once, changed twice, or two people's together."""
    name, other = dice.some(NAMES, 2)
    one, several = counted = dice.pick(COUNTED)
    other_counted = dice.pick(COUNTED)
    while other_counted == counted:
        other_counted = dice.pick(COUNTED)
    # Digits stay below ten, so that each number is one piece in either writing.
    written: Sequence[str] = DIGITS if dice.chance(0.5) else NUMBER_WORDS
    largest = len(written) - 1

    def many(number: int, of: tuple[str, str]) -> str:
        return f"{written[number]} {of[number != 1]}"

    form = dice.number(0, 9)
    changes = 0 if form < 3 else 1 if form < 7 else 2 if form < 9 else 0
    start = dice.number(1, largest)
    aside = dice.number(1, largest)
    mentioned = [start, aside]
    had = dice.pick(("had", "bought", "found"))
    told = [f"{name} {had} {many(start, counted)}."]
    total = start
    for step in range(changes):
        gains = total < largest and (total < 2 or dice.chance(0.5))
        by = dice.number(1, min(5, largest - total if gains else total - 1))
        total += by if gains else -by
        mentioned.append(by)
        change = dice.pick(GAINS if gains else LOSSES).format(written[by])
        told.append(f"{('Then', 'Later')[step]} {name} {change}.")
    others = [f"{other} had {many(aside, other_counted)}."]
    closing = dice.pick((f"The number of {several} that {name} has is now", f"Now {name} has"))
    question = f"How many {several} does {name} have now?"
    hops = max(1, changes)
    # "he" is clear only beside a "she"
    if changes == 1 and (name in WOMEN) != (other in WOMEN) and dice.chance(0.6):
        he = "she" if name in WOMEN else "he"
        told = [f"{told[0][:-1]} and {told[1].split(maxsplit=2)[2]}"]
        closing = f"Now {he} has"
    if form == 9:
        start = dice.number(1, largest - 1)
        aside = dice.number(1, largest - start)
        total, mentioned, hops = start + aside, [start, aside], 2
        told = [f"{name} has {many(start, counted)}.", f"{other} has {many(aside, counted)}."]
        others = []
        closing = f"The number of {several} that they have together is"
        question = f"How many {several} do they have together?"
    near = [n for n in range(total - 4, total + 5) if 1 <= n <= largest and n != total]
    rivals = [number for number in dict.fromkeys(mentioned) if number != total]
    return Draft(
        facts=dice.weave(told, others),
        closing=closing,
        answer=written[total],
        rivals=[written[number] for number in rivals[:2]],
        pool=[written[number] for number in near],
        question=question,
        choice_form="{} " + several,
        choice_form_one="{} " + one,
        hops=hops,
    )


def ordering(dice: Dice) -> Draft:
    """Who is taller, which is heaviest, who came second? Harder: a chain of three."""
    form = dice.number(0, 9)
    if form < 3:
        return _ranks(dice)
    people = dice.chance(0.6)
    pool = NAMES if people else THINGS
    more, less, most, least = dice.pick(PERSON_SCALES if people else THING_SCALES)
    first, second, third, fourth = dice.some(pool, 4)
    article, which = ("", "Who") if people else ("the ", "Which")
    upward = dice.chance(0.5)

    def compares(left: str, right: str) -> str:
        return f"{article}{left} is {more} than {article}{right}."

    if form < 8:
        # a pair, and another pair that does not matter
        facts = [compares(first, second), compares(third, fourth)]
        facts = dice.shuffled(facts)
        answer, wrong = (first, second) if upward else (second, first)
        pair = f"{article}{first} and {article}{second}"
        if dice.chance(0.5):
            pair = f"{article}{second} and {article}{first}"
        asked = more if upward else less
        closing = f"Of {pair}, the {asked} one is {article}".rstrip()
        question = f"{which} is {asked}, {pair.replace(' and ', ' or ')}?"
        rivals, hops = [wrong, third, fourth], 1
    else:
        facts = [compares(first, second), compares(second, third)]
        if dice.chance(0.3):
            facts.reverse()
        answer = first if upward else third
        asked = most if upward else least
        closing = f"The {asked} of the three is {article}".rstrip()
        question = f"{which} is the {asked} of the three?"
        rivals, hops = [second, third if upward else first], 2
        if people:
            facts.append(dice.pick(BYSTANDERS).format(fourth))
            rivals.append(fourth)
    return Draft(
        facts=[fact[0].upper() + fact[1:] for fact in facts],
        closing=closing,
        answer=answer,
        rivals=rivals,
        pool=pool,
        question=question,
        choice_form=article + "{}",
        hops=hops,
    )


def _ranks(dice: Dice) -> Draft:
    names = dice.some(NAMES, 4)
    place = dice.pick(PLACES)
    verb = dice.pick(("arrived", "finished"))
    if dice.chance(0.5):
        fact = "{} came first, {} came second and {} came third.".format(*names)
        rank = dice.number(0, 2)
        word = ("first", "second", "third")[rank]
        closing, question = f"The one who came {word} was", f"Who came {word}?"
    else:
        fact = "{0} {3} before {1}, and {1} {3} before {2}.".format(*names[:3], verb)
        rank = 2 * dice.number(0, 1)
        word = ("first", "", "last")[rank]
        closing, question = f"The one who {verb} {word} was", f"Who {verb} {word}?"
    others = [dice.pick(BYSTANDERS).format(names[3])]
    return Draft(
        facts=dice.weave([f"They all ran to the {place}.", fact], others),
        closing=closing,
        answer=names[rank],
        rivals=[name for name in names if name != names[rank]],
        pool=NAMES,
        question=question,
    )


def dates(dice: Dice) -> Draft:
    """On which day or in which month? Looked up, or reckoned from today."""
    days = dice.chance(0.6)
    calendar = DAYS if days else MONTHS
    event, other_event, third_event = dice.some(EVENTS, 3)
    today = dice.number(0, len(calendar) - 1)
    when = "on" if days else "in"
    form = dice.number(0, 9)
    if form < 4:
        target, other, third = dice.some(calendar, 3)
        facts = [
            f"The {event} is {when} {target}.",
            f"The {other_event} is {when} {other}.",
            f"The {third_event} was {when} {third}.",
        ]
        answer, rivals, hops, verb = target, [other, third], 1, "is"
    else:
        step_words, step = dice.pick(DAY_STEPS if days else MONTH_STEPS)
        now = calendar[today]
        back = dice.chance(0.25)
        if back:
            step_words, step = ("yesterday" if days else "last month"), -1
        answer = calendar[(today + step) % len(calendar)]
        other = dice.pick(calendar)
        while other in (answer, now):
            other = dice.pick(calendar)
        verb = "was" if back else "is"
        facts = [
            dice.pick(("Today is {}.", "It is {} today.") if days else ("It is {} now.",)).format(
                now
            ),
            f"The {event} {verb} {step_words}.",
            f"The {other_event} is always {when} {other}.",
        ]
        rivals, hops = [now, other], 1 + (step > 1)
        near = [calendar[(today + shift) % len(calendar)] for shift in (1, 2, -1, 3)]
        rivals += dice.shuffled([day for day in near if day not in (answer, other)])[:1]
    return Draft(
        facts=dice.shuffled(facts),
        closing=f"So the {event} {verb} {when}",
        answer=answer,
        rivals=rivals,
        pool=calendar,
        question=f"{'On which day' if days else 'In which month'} {verb} the {event}?",
        choice_form=when + " {}",
        hops=hops,
    )


def opposites(dice: Dice) -> Draft:
    """Two things and two pairs of opposites; what is one of them like?"""
    pair, other_pair, third_pair = dice.some(OPPOSITES, 3)
    left, right = pair[:2] if dice.chance(0.5) else (pair[1], pair[0])
    other_left, other_right = other_pair[:2] if dice.chance(0.5) else (other_pair[1], other_pair[0])
    thing, other_thing = dice.pick(pair[2]), dice.pick(other_pair[2])
    third_thing = dice.pick(third_pair[2])
    third_word = third_pair[1] if dice.number(0, 1) else third_pair[0]
    name = dice.pick(NAMES)
    form = dice.number(0, 9)
    answer, wrong, hops = right, left, 1
    if form < 2:
        told, answer, wrong = [f"The {thing} was {left}."], left, right
    elif form < 5:
        told = [f"The {thing} was not {left}."]
    elif form < 7:
        told = [f"{name} said that the {thing} was {left}, but {name} was wrong."]
    elif form < 9:
        told = [f"At first the {thing} was {left}.", f"Later the {thing} was the opposite."]
    else:
        told = [f"The {thing} was the opposite of {left}."]
    negated = "not " if dice.chance(0.5) else ""
    others = [
        f"The {other_thing} was {negated}{other_left}.",
        f"The {third_thing} was {third_word}.",
    ]
    return Draft(
        facts=dice.weave(told, others),
        closing=dice.pick(("So the {} was", "In the end the {} was")).format(thing),
        answer=answer,
        rivals=[wrong, other_left, other_right, third_word],
        pool=ADJECTIVES,
        question=dice.pick(("What was the {} like?", "How was the {} in the end?")).format(thing),
        choice_form="it was {}",
        hops=hops,
    )

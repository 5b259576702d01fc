"""Kinds of stories about people and things: places, objects, family."""

from __future__ import annotations

from mlm_consistency.pretraining.lexicon import (
    BYSTANDERS,
    CONTAINERS,
    MEN,
    NAMES,
    PLACES,
    THINGS,
    WOMEN,
)
from mlm_consistency.pretraining.story_draft import Dice, Draft

ARRIVES = (
    "{} went to the {}.",
    "{} walked to the {}.",
    "{} ran to the {}.",
    "{} is in the {}.",
    "{} came to the {}.",
)
MOVES_ON = (
    "Then {} went to the {}.",
    "Later {} went to the {}.",
    "After that {} walked to the {}.",
    "After lunch {} moved to the {}.",
)
FOLLOWS = ("{} went with {}.", "{} followed {} there.", "{} is with {}.")
IS_NOW_IN = (
    "Now {} is in the",
    "So {} is now in the",
    "In the end {} is in the",
    "You can find {} in the",
)
WHERE_IS_PERSON = ("Where is {} now?", "Where can you find {}?", "Where is {}?")

HOLDS = ("{} has the {}.", "{} took the {}.", "{} found the {}.", "{} bought the {}.")
GIVES = ("{} gave the {} to {}.", "Then {} gave the {} to {}.", "Later {} sold the {} to {}.")
LIES_IN = ("The {} is in the {}.", "The {} lies in the {}.", "The {} was put in the {}.")
PUTS = ("Then {} put the {} in the {}.", "Later {} moved the {} to the {}.")


def places(dice: Dice) -> Draft:
    """People go to places; where is one of them? Harder: moved twice, or went with another."""
    first, second, third = dice.some(NAMES, 3)
    here, there, yonder, later = dice.some(PLACES, 4)
    others = [dice.pick(ARRIVES).format(second, there), dice.pick(ARRIVES).format(third, yonder)]
    told = [dice.pick(ARRIVES).format(first, here)]
    asked, answer, hops = first, here, 1
    rivals = [there, yonder]
    form = dice.number(0, 9)
    if form >= 5:
        told.append(dice.pick(MOVES_ON).format(first, later))
        answer = later
        rivals.append(here)
        if form == 9:
            # the third one goes along after the move
            others.pop()
            rivals.remove(yonder)
            told.append(dice.pick(FOLLOWS).format(third, first))
            asked, hops = third, 2
    elif form == 4:
        others.pop()
        rivals.remove(yonder)
        told[0] += " " + dice.pick(FOLLOWS).format(third, first)
        asked, hops = third, 2
    return Draft(
        facts=dice.weave(told, others),
        closing=dice.pick(IS_NOW_IN).format(asked),
        answer=answer,
        rivals=rivals,
        pool=PLACES,
        question=dice.pick(WHERE_IS_PERSON).format(asked),
        choice_form="in the {}",
        hops=hops,
    )


def objects(dice: Dice) -> Draft:
    """Things change hands or are put elsewhere; who has it, what has one, where is it?"""
    form = dice.number(0, 9)
    if form < 5:
        return _owners(dice, asks_for_thing=form >= 3)
    if form < 8:
        return _containers(dice)
    return _carried(dice)


def _owners(dice: Dice, asks_for_thing: bool) -> Draft:
    giver, taker, other, bystander = dice.some(NAMES, 4)
    thing, other_thing, third_thing = dice.some(THINGS, 3)
    told = [dice.pick(HOLDS).format(giver, thing)]
    others = [dice.pick(HOLDS).format(other, other_thing)]
    owner = giver
    if dice.chance(0.6):
        told.append(dice.pick(GIVES).format(giver, thing, taker))
        owner = taker
    else:
        others.append(dice.pick(HOLDS).format(taker, third_thing))
    if asks_for_thing:
        rivals = [other_thing] if owner == taker else [other_thing, third_thing]
        return Draft(
            facts=dice.weave(told, others),
            closing=dice.pick(("{} now has the", "What {} has now is the")).format(owner),
            answer=thing,
            rivals=rivals,
            pool=THINGS,
            question=f"What does {owner} have now?",
            choice_form="the {}",
        )
    others.append(dice.pick(BYSTANDERS).format(bystander))
    return Draft(
        facts=dice.weave(told, others),
        closing=dice.pick(("The {} now belongs to", "The owner of the {} is now")).format(thing),
        answer=owner,
        rivals=[name for name in (giver, taker, other, bystander) if name != owner],
        pool=NAMES,
        question=dice.pick(("Who has the {} now?", "Who is the owner of the {}?")).format(thing),
    )


def _containers(dice: Dice) -> Draft:
    name = dice.pick(NAMES)
    thing, other_thing, third_thing = dice.some(THINGS, 3)
    here, there, yonder, later = dice.some(CONTAINERS, 4)
    told = [dice.pick(LIES_IN).format(thing, here)]
    others = [
        dice.pick(LIES_IN).format(other_thing, there),
        dice.pick(LIES_IN).format(third_thing, yonder),
    ]
    answer, rivals = here, [there, yonder]
    if dice.chance(0.5):
        told.append(dice.pick(PUTS).format(name, thing, later))
        answer, rivals = later, [there, yonder, here]
    return _thing_is_in(dice, thing, dice.weave(told, others), answer, rivals, CONTAINERS, 1)


def _carried(dice: Dice) -> Draft:
    name, other = dice.some(NAMES, 2)
    thing, other_thing = dice.some(THINGS, 2)
    here, there, yonder = dice.some(PLACES, 3)
    told = [
        dice.pick(ARRIVES).format(name, here),
        f"There {name} took the {thing}.",
        dice.pick(MOVES_ON).format(name, yonder),
    ]
    others = [dice.pick(ARRIVES).format(other, there) + f" There {other} found the {other_thing}."]
    return _thing_is_in(
        dice, thing, dice.weave(told, others), yonder, [here, there], PLACES, hops=2
    )


def _thing_is_in(
    dice: Dice,
    thing: str,
    facts: list[str],
    answer: str,
    rivals: list[str],
    pool: tuple[str, ...],
    hops: int,
) -> Draft:
    return Draft(
        facts=facts,
        closing=dice.pick(("The {} is now in the", "You can find the {} in the")).format(thing),
        answer=answer,
        rivals=rivals,
        pool=pool,
        question=dice.pick(("Where is the {} now?", "Where is the {}?")).format(thing),
        choice_form="in the {}",
        hops=hops,
    )


def family(dice: Dice) -> Draft:
    """Two families; who is whose parent, child, or (harder) grandparent?"""
    mother, other_mother = dice.some(WOMEN, 2)
    father, other_father = dice.some(MEN, 2)
    # The asked parent is a mother or a father; the other family has the same shape.
    asks_mother = dice.chance(0.5)
    parent, rival = (mother, other_mother) if asks_mother else (father, other_father)
    role = "mother" if asks_mother else "father"
    elder, other_elder = (father, other_father) if asks_mother else (mother, other_mother)
    elder_role = "father" if asks_mother else "mother"
    taken = (mother, other_mother, father, other_father)
    child, other_child, sibling = [n for n in dice.some(NAMES, 7) if n not in taken][:3]
    form = dice.number(0, 9)
    facts = [f"{parent} is the {role} of {child}.", f"{rival} is the {role} of {other_child}."]
    hops, asked = 1, child
    if form < 3:
        facts.append(f"{elder} is the {elder_role} of {child}.")
        closing, question = f"The {role} of {child} is", f"Who is the {role} of {child}?"
        answer, rivals = parent, [rival, elder, other_child, child]
    elif form < 6:
        kin = "daughter" if child in WOMEN else "son"
        facts[0] = f"{child} is the {kin} of {parent}."
        closing, question = f"The {role} of {child} is", f"Who is the {role} of {child}?"
        answer, rivals = parent, [rival, elder, other_child]
        facts.append(f"{elder} is the {elder_role} of {other_child}.")
    elif form < 8:
        facts.append(f"{other_elder} is a friend of {parent}.")
        closing, question = f"The child of {parent} is", f"Who is the child of {parent}?"
        answer, rivals = child, [other_child, rival, other_elder]
    elif form == 8:
        asked = sibling
        relation = "sister" if sibling in WOMEN else "brother"
        facts.append(f"{sibling} is the {relation} of {child}.")
        closing, question = f"The {role} of {asked} is", f"Who is the {role} of {asked}?"
        answer, rivals, hops = parent, [rival, child, other_child], 2
    else:
        facts.append(f"{elder} is the {elder_role} of {parent}.")
        facts.append(f"{other_elder} is the {elder_role} of {rival}.")
        closing = f"The grand{elder_role} of {child} is"
        question = f"Who is the grand{elder_role} of {child}?"
        answer, rivals, hops = elder, [other_elder, parent, rival, other_child], 2
    return Draft(
        facts=dice.shuffled(facts),
        closing=closing,
        answer=answer,
        rivals=rivals,
        pool=NAMES,
        question=question,
        hops=hops,
    )

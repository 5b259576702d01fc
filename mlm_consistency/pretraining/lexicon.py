"""Word lists of the synthetic stories, kept small so that a tiny model meets every word often.

All words are plain English and a single word each, so that candidates of one kind have the
same format. ``GENERAL_WORDS`` never occur in a story on purpose; they only widen the corpus
of the vocabulary, so that other English text does not fall apart into letters.
"""

# ruff: noqa: SIM905 (one long string of words is easier to read and to edit than a list)
from __future__ import annotations

WOMEN = tuple(
    "Anna Mia Lucy Emma Rosa Nina Clara Sara Julia Kate Ella Maria Helen Grace Alice Lena Ruth "
    "Vera Jane Ida".split()
)
MEN = tuple(
    "Tom Ben Sam Jack Paul Max Leo Adam David Oscar Peter Hugo Frank Ivan Mark Noah Eric Simon "
    "Luke Carl".split()
)
NAMES = tuple(name for pair in zip(WOMEN, MEN, strict=True) for name in pair)

PLACES = tuple(
    "kitchen garden park school library market station office barn museum hotel forest church "
    "bakery bank castle cellar attic garage hall bedroom harbour tower stable village theatre "
    "hospital cafe shop cave".split()
)
CONTAINERS = tuple(
    "box drawer bag basket cupboard chest bucket jar case wardrobe sack trunk pocket crate".split()
)
THINGS = tuple(
    "ball book key lamp hat ring clock knife letter map cup spoon shoe coat camera pen flute doll "
    "kite rope mirror brush hammer candle ticket towel whistle umbrella torch pillow".split()
)
# Things that are counted: (one, several).
COUNTED = tuple(
    (one, several)
    for one, several in (
        pair.split("/")
        for pair in (
            "apple/apples egg/eggs coin/coins pear/pears plum/plums cake/cakes stamp/stamps "
            "shell/shells button/buttons pencil/pencils card/cards nut/nuts cookie/cookies "
            "lemon/lemons flower/flowers stone/stones marble/marbles onion/onions fish/fishes "
            "balloon/balloons"
        ).split()
    )
)

DIGITS = tuple("0123456789")
NUMBER_WORDS = tuple("zero one two three four five six seven eight nine ten eleven twelve".split())
DAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
MONTHS = tuple(
    "January February March April May June July August September October November December".split()
)
EVENTS = tuple(
    "party lesson concert meeting picnic wedding game exam race dinner trip play".split()
)

# (adjective, its opposite, things that can be either); every adjective occurs once.
OPPOSITES = tuple(
    (left, right, tuple(nouns.split(",")))
    for left, right, nouns in (
        line.split()
        for line in (
            "hot cold soup,tea,water",
            "full empty bottle,glass,bus",
            "open closed door,window,gate",
            "clean dirty shirt,floor,plate",
            "wet dry grass,jacket,wood",
            "big small house,dog,tent",
            "old new car,bicycle,piano",
            "long short road,song,film",
            "heavy light suitcase,parcel,table",
            "fast slow train,horse,boat",
            "hard soft bed,bread,chair",
            "loud quiet street,radio,crowd",
            "dark bright room,corridor,evening",
            "happy sad child,clown,singer",
            "rich poor farmer,merchant,uncle",
            "strong weak giant,wrestler,bull",
            "early late guest,plane,doctor",
            "cheap expensive ticket,phone,necklace",
            "easy difficult test,puzzle,task",
            "sweet bitter orange,juice,sauce",
            "thick thin wall,blanket,ice",
            "wide narrow river,path,bridge",
            "deep shallow lake,pond,well",
            "smooth rough sea,skin,surface",
            "sharp blunt axe,saw,sword",
            "polite rude waiter,visitor,pupil",
            "kind cruel king,queen,master",
            "ill healthy cat,nurse,lion",
            "awake asleep baby,guard,owl",
            "right wrong reply,guess,number",
        )
    )
)

# (comparative, its converse, superlative, superlative of the converse)
PERSON_SCALES = tuple(
    tuple(line.split())
    for line in (
        "taller shorter tallest shortest",
        "older younger oldest youngest",
        "faster slower fastest slowest",
        "stronger weaker strongest weakest",
    )
)
THING_SCALES = tuple(
    tuple(line.split())
    for line in (
        "heavier lighter heaviest lightest",
        "bigger smaller biggest smallest",
        "longer shorter longest shortest",
        "newer older newest oldest",
    )
)

# Sentences that decide nothing in any kind of story.
SCENERY = tuple(
    """The sun was shining over the hills.
    It was raining and the wind was blowing.
    A bird was singing in a tree.
    Nobody said a word for a while.
    The leaves were falling from the trees.
    There was snow on every roof.
    Some people were talking about the news.
    The bells were ringing far away.
    It was a fine morning.
    The sky was grey and there was no wind.
    All of them were in a good mood.
    A man with a beard walked by.
    The children were playing outside.
    Somebody was playing music next door.
    There was a smell of coffee in the air.
    It had been a busy week for everyone.
    A dog barked and then it stopped.
    They had been friends for many years.
    The lights went out for a moment.
    Everyone was a little tired.
    A cloud passed in front of the sun.
    The neighbours were painting their fence.
    Nothing else happened that day.
    It was almost time to eat.
    The stars were out and the moon was round.
    An old woman told a story about a ship.
    They laughed about it for a long time.
    The street was full of cars.
    It was warm for the time of the year.
    A cat was watching all this from a roof.
    Outside, the rain had just begun.
    They all liked to be together.""".replace("\n    ", "\n").split("\n")
)
BYSTANDERS = (
    "{} was reading a newspaper.",
    "{} was singing a song.",
    "{} did not say much.",
    "{} was tired and went to sleep.",
    "{} was waiting for a friend.",
    "{} watched all of this.",
    "{} was thinking of the sea.",
    "{} made some tea for everyone.",
    "{} was talking on the phone.",
    "{} smiled at them.",
)

GENERAL_WORDS = tuple(
    """about above across act action activity add address adult advice affect after again against
    age agree allow almost alone along already also although always among amount analysis and
    animal another answer any appear apply approach area argue arm army around art article ask
    attack attention author authority available average away back bad base basic battle be beauty
    because become before begin behaviour behind believe below benefit best better between beyond
    blood blue body both bottom brain break bring brother brown build building business but buy
    by call can cannot capital care carry cause cell central century certain chance change
    character charge check chemical choice choose citizen city claim class clear close code
    colour come common community company compare complete computer concern condition consider
    contain continue control cost could country course court create crime culture current cut
    daily danger data date daughter death debate decide decision define degree demand describe
    design despite detail determine develop development difference different direct direction
    disease distance do does doing done down draw dream drive drug during each early earth east
    economic economy edge education effect effort either election electric element employ end
    energy enough enter entire environment equal error especially event ever every evidence
    exactly example except exist expect experience explain express eye face fact fail fall false
    family famous far father feel few field fight figure final find fire first flow focus follow
    food for force foreign form former found free from function further future gas general get
    give given go goal god good government great green group grow growth hair half hand happen
    has have he head health hear heart heat help her here high him his history hold hope hour how
    however human idea identify if image impact important improve in include increase indeed
    individual industry influence information inside instead interest into involve is issue it
    item its itself job join judge just keep know knowledge known land language large last law
    lead leader learn least leave left less let level lie life like likely limit line list little
    live local logic look lose loss love low machine made main major make man manage many mass
    material matter may mean measure media medical member memory men mental message metal method
    middle might military million mind minute model modern money moral more most mother motion
    mountain move much must name nation national nature near need network never next night no
    none nor normal north not nothing notice now object occur of off offer often oil on once only
    onto or order organ organization other our out over own page pain parent part particular
    party past patient pattern pay peace people perhaps period person physical picture piece
    planet plant point police policy political population position possible power practice
    prepare present president pressure price principle private probably problem process produce
    product program project property protect provide public purpose put question quickly quite
    rate rather reach read real reason receive recent record red reduce refer region relation
    religion religious remain remember report represent require research resource response
    result return role rule run same say scale science season second security see seem sense
    series serve service set several shape share she should show side sign similar simple since
    single sister situation size skill so social society solution some son soon sound source
    south space speak special speed spend stage stand standard start state statement still stop
    story structure student study style subject success such suggest support sure surface system
    take talk teach teacher tell temperature term than that the their them then theory there
    these they thing think this those though thought through throughout thus time to together too
    total toward trade treat treatment tree true truth try turn type under understand union unit
    until up upon us use usually value various very view vote want war was watch water wave way
    we weight well were west what when where whether which while white who whole whom whose why
    will win wish with within without woman women word work world would write yes yet you young
    your""".split()
)
SUFFIXES = tuple(
    "s es ed d ing ly er ers or al ion tion ation ment ness able ible ive ity ous ic ist ism "
    "ful less y".split()
)

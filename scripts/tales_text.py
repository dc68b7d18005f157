"""The words and sentences the tales are built from; `tales_grammar` puts them together.

Two notations: `{name}` is a slot filled from the tale, the same all through it, and `[a|b]` is a
choice drawn anew each time. Every animal and object begins with a consonant, so that "a" is
always the right article and exchanging one for another changes nothing else.
"""

SHE_NAMES = (
    "Mira", "Anna", "Lucy", "Nora", "Ella", "Rosa", "Ida", "Wren", "Tess", "June", "Vera", "Maud",
)  # fmt: skip
HE_NAMES = (
    "Tom", "Ben", "Oscar", "Leo", "Hugo", "Finn", "Max", "Otto", "Sam", "Jack", "Emil", "Ravi",
)  # fmt: skip
ANIMALS = (
    "fox", "bear", "rabbit", "hedgehog", "badger", "crow", "goat", "cat", "dog", "duck", "mouse",
    "pony", "squirrel", "heron", "tortoise", "deer",
)  # fmt: skip
OBJECTS = (
    "lantern", "bell", "kite", "drum", "key", "book", "mirror", "whistle", "basket", "boat", "map",
    "ring", "clock", "blanket", "kettle", "flute",
)  # fmt: skip
HOMES = (
    "a village by the sea", "a small town in the hills", "a farm near the river",
    "a house at the edge of the wood", "a valley full of apple trees", "a street of narrow houses",
)  # fmt: skip
PLACES = (
    "old mill", "stone bridge", "market", "dark wood", "harbour", "garden", "well", "high meadow",
    "church tower", "barn", "lake", "mill pond",
)  # fmt: skip
TRAITS = ("kind", "brave", "shy", "curious", "quiet", "clever", "cheerful", "stubborn")
COLOURS = ("red", "blue", "green", "yellow", "white", "silver", "brown")
FOODS = ("bread", "apple cake", "soup", "honey", "cheese", "plums", "pancakes")

OPENINGS = (
    (
        "[Once upon a time|Long ago|Many years ago] there lived in {home} a {trait} "
        "child called {hero}."
    ),
    "In {home} there was a {trait} child whose name was {hero}.",
    "{hero} was a {trait} child who lived in {home}.",
    "This is the tale of {hero}, who lived in {home} and was very {trait}.",
    "[Nobody|No one] in {home} was as {trait} as {hero}.",
)
POSSESSIONS = (
    "{hero} had a {colour} {object}, and {they} [loved|liked] it more than anything.",
    "What {they} loved best was {their} {colour} {object}.",
    "{their} [grandmother|grandfather|uncle|aunt] had given {them} a {colour} {object}.",
    "Every day {they} carried a {colour} {object}, which had been {their} [mother|father]'s.",
)
FRIENDS = (
    "{their} best friend was {friend}, who lived [next door|across the road|by the {place}].",
    "{hero} and {friend} did [everything|nearly everything] together.",
    "{friend}, {their} friend, was never far away.",
)
WEATHER = (
    "One [cold|grey|misty] morning the [rain|snow|fog] came down on the roofs.",
    (
        "One [bright|warm|clear] [morning|evening] in [spring|summer|autumn] the sun lay "
        "on the fields."
    ),
    "It was a [windy|stormy|frosty] day, and the clouds were [low|dark|heavy].",
    "One [day|evening] in [winter|autumn] the wind blew [hard|softly] from the [north|west].",
)

LOST = (
    (
        "On the way to the {place}, {hero} lost the {object}.",
        "When {hero} came home from the {place}, the {object} was gone.",
        "{hero} put the {object} down near the {place}, and then it was not there any more.",
    ),
    (
        "{they} looked [under the bed|behind the door|in the grass], but found nothing.",
        "{they} searched [all day|until dark|for hours] and felt [sad|tired|worried].",
        '"Where is my {object}?" {they} cried.',
    ),
    (
        '"I will help you look," said {friend}. "Two see more than one."',
        '"Do not cry," said {friend}. "We will find the {object} together."',
        '{friend} asked, "Where did you have it last?" "At the {place}," said {hero}.',
    ),
    (
        "At the {place} they met a {animal}, [who was eating {food}|who was fast asleep].",
        "Behind the {place} sat a {animal} with [bright eyes|muddy feet|a torn ear].",
    ),
    (
        "The {animal} was [sitting on|hiding|guarding] the {colour} {object}.",
        '"I found this {object} in the mud," said the {animal}. "Is it yours?"',
        (
            "Because the {animal} had [been lonely|wanted something to play with], it had "
            "taken the {object}."
        ),
    ),
    (
        "{hero} gave the {animal} some {food}, and the {animal} gave back the {object}.",
        '"Thank you," said {hero}, and {they} shared {their} {food} with the {animal}.',
    ),
)
STORM = (
    (
        "Then a great storm broke over the {place}.",
        "By evening the river had risen as far as the {place}.",
        "Suddenly the [thunder|wind] shook the windows, and all the lights went out.",
    ),
    (
        "From the {place} came a [thin|small|frightened] cry.",
        '"Listen," said {friend}. "Somebody is calling from the {place}."',
        "{friend} ran in and said that a {animal} was caught near the {place}.",
    ),
    (
        "{hero} was [afraid|frightened], but {they} took the {object} and went out.",
        "{they} took {their} {object} and ran [into the rain|down the road|out of the door].",
        '"I am coming!" called {hero}, and {they} held the {object} tight.',
    ),
    (
        "There was a {animal}, [wet and cold|shaking with fear], and the water was all around it.",
        "A {animal} stood on a [rock|fallen tree], and it could not get down.",
    ),
    (
        "With the {object} {they} showed the {animal} the way, and {friend} held out a hand.",
        "{hero} used the {object} to reach the {animal}, while {friend} held {their} coat.",
        "The {animal} saw the {colour} {object} in the dark and came [slowly|at once].",
    ),
    (
        "They carried the {animal} home and gave it {food}.",
        (
            "So the {animal} was saved, and it slept [by the fire|in the barn|under the "
            "table] that night."
        ),
    ),
)
GIFT = (
    (
        "It was {friend}'s birthday, and {hero} had no money for a gift.",
        "{friend} was ill in bed, and {hero} wanted to bring something good.",
    ),
    (
        "{they} went to the {place} to think.",
        "{they} walked as far as the {place} and back, but no idea came.",
    ),
    (
        'There a {animal} asked, "Why do you look so [sad|serious|worried]?"',
        'A {animal} came up to {them} and said, "Tell me what is wrong."',
    ),
    (
        '"I have nothing to give," said {hero}. "Nothing but this {object}."',
        '"All I have is my {object}," {they} [said|answered|whispered].',
    ),
    (
        '"A gift is only good if you would miss it," said the {animal}.',
        '"Then give that," said the {animal}. "What you love, others will love too."',
    ),
    (
        "So {hero} [cleaned|wrapped|polished] the {object} and took it to {friend}.",
        "{hero} tied a {colour} ribbon round the {object} and knocked at {friend}'s door.",
    ),
    (
        '{friend} [laughed|smiled|was quiet for a while] and said, "We will share it."',
        '"It is the best gift of all," said {friend}, and cut some {food} for both of them.',
    ),
)
SOUND = (
    (
        "Every night a strange sound came from the {place}.",
        "People said that a ghost lived at the {place}.",
        (
            "For three nights nobody in the house could sleep, because something "
            "[howled|knocked|sang] at the {place}."
        ),
    ),
    (
        '"I am going to see what it is," said {hero}.',
        '"There are no ghosts," said {hero}, but {their} voice was [small|thin].',
    ),
    (
        '{friend} said, "Then I am coming with you."',
        '"Take the {object}," said {friend}. "You never know."',
    ),
    (
        "They crept to the {place}, and {their} heart beat [fast|like a drum].",
        (
            "Step by step they went up to the {place}, and {hero} held the {object} in front "
            "of {them}."
        ),
    ),
    (
        (
            "There was no ghost, only a {animal} [with a thorn in its foot|stuck in the "
            "fence|calling for its mother]."
        ),
        "Something moved in the dark. It was a {animal}!",
    ),
    (
        "When the {animal} saw the {object}, it became [calm|quiet|still].",
        '"So it was you," said {hero}, and {they} [stroked|fed|freed] the {animal}.',
    ),
    (
        "They all laughed about it, and afterwards they ate {food}.",
        "From then on everybody slept well, and the {animal} got {food} every evening.",
    ),
)
RACE = (
    (
        (
            "Each year there was a [race|contest] from the {place} to the church, and {hero} "
            "wanted to win."
        ),
        'A {animal} came to the {place} and said, "Nobody is faster than I am."',
    ),
    (
        '"You are too slow," said the {animal}, and everybody laughed.',
        '"If I win," said the {animal}, "you must give me your {object}."',
    ),
    (
        "{friend} and {hero} practised every [morning|evening], even in the rain.",
        '"Do not listen," said {friend}. "Start slowly, and do not stop."',
    ),
    (
        "On the day of the race the {animal} was soon far ahead.",
        "The {animal} ran so fast that it [fell into a ditch|lost its way|had to rest].",
    ),
    (
        "{hero} [could have run past|saw it], but {they} stopped and helped the {animal} up.",
        "{they} did not run on, because {they} felt sorry for the {animal}.",
    ),
    (
        "They came in together, last of all, and [people clapped|the bells rang|nobody minded].",
        '"You could have won," said the {animal}. "Why did you stop?"',
    ),
    (
        '"You are a better friend than I am," said the {animal}, and they shared the {food}.',
        "The prize was some {food}, and {hero} cut it into three parts.",
    ),
)
BROKEN = (
    (
        "One day {hero} dropped the {object}, and it broke.",
        "At the {place} {they} fell over a stone, and the {object} broke in two.",
    ),
    (
        "{hero} was so [sad|angry|ashamed] that {they} hid it [under the stairs|in a box].",
        '"It is my own fault," said {hero}.',
    ),
    (
        '"Nothing is so broken that nobody can mend it," said {friend}.',
        '"I know who can mend it," said {friend}. "Come to the {place}."',
    ),
    (
        "At the {place} lived an old {animal} who could mend [anything|everything].",
        "They asked a {animal}, because a {animal} has [clever hands|patience|sharp eyes].",
    ),
    (
        '"I can mend your {object}," said the {animal}, "but you must bring me some {food}."',
        'The {animal} looked at the {object} and said, "Come back when the moon is full."',
    ),
    (
        "{hero} worked [for three days|all week] and brought what the {animal} had asked for.",
        "{they} waited and waited, and it was hard for {them}.",
    ),
    (
        "In the end the {object} was as good as new, only a little more {colour} than before.",
        "You could still see the crack, but {hero} liked the {object} better than ever.",
    ),
)
PLOTS = (LOST, STORM, GIFT, SOUND, RACE, BROKEN)

ENDINGS = (
    "And {hero} was [happy|glad|proud] [all evening|for a long time|at last].",
    "That night {hero} [slept well|dreamed of the {animal}|lay awake and smiled].",
    "{hero} and {friend} [often|sometimes] went back to the {place} to see the {animal}.",
    "So {hero}, {friend} and the {animal} became [good|the best of] friends.",
    "And if anybody asked about the {object}, {hero} only [smiled|laughed].",
)
MORALS = (
    "A friend is worth more than a {object}.",
    "If you are kind, kindness comes back to you.",
    "It is all right to be afraid, as long as you go on.",
    "What you share grows larger.",
)
REQUESTS = (
    "Tell me a tale about a {animal} and a {object}.",
    "Tell me a tale about {hero} and a {animal}.",
    "Please tell a tale about {hero}, {friend} and a {object}.",
    "I would like to hear a tale about a {colour} {object}.",
    "Tell me a tale.",
)

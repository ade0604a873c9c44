#include "folio/data/story_words.h"

namespace folio::internal {
namespace {

constexpr std::string_view kOpening =
    "[Once upon a time, there was a~ {kind} named {H}.|Once there was a~ {trait} {kind} named "
    "{H}.|{H} was a~ {trait} {kind} who lived near {place}.|In a small house near {place}, there "
    "lived a~ {kind} named {H}.|There once was a~ {kind}. {His} name was {H}, and {he} was very "
    "{trait}.]";

constexpr std::string_view kThanks =
    "[\"Thank you, {F}!\" said {H}. \"You are a good friend.\"|{H} gave {F} a big hug. \"Thank you "
    "so much!\" {he} said.|\"I could not have done it without you,\" {H} told {F}.|{H} smiled. "
    "\"Thank you for your help, {F},\" {he} said.]";

constexpr std::string_view kLost[] = {
    kOpening,
    "{H} had a~ {thing}, and {he} [loved it very much|took it everywhere|played with it every "
    "day].",
    "?It was a gift from {his} {adult}.",
    "/",
    "[One {weather} day|One {weather} morning], {H} took the {noun} {to}.",
    "{He} [ran and played|picked flowers|watched the clouds] until it was time to go home.",
    "[Then {he} looked around.|But something was wrong.|Suddenly {he} stopped.] The {thing} was "
    "gone!",
    "\"Oh no! Where is my {noun}?\" [cried|asked] {H}.",
    "{He} looked {spot1}, but it was not there.",
    "{He} looked {spot2}, [but it was not there, either|and it was not there].",
    "?{H} sat down and began to cry.",
    "/",
    "[Just then|After a while|Soon], {Fintro} came by. \"[What is wrong|Why are you so sad], "
    "{H}?\" asked {F}.",
    "\"I lost my {thing},\" said {H}. \"[I looked everywhere|I cannot find it].\"",
    "\"Do not worry. I will help you,\" said {F}.",
    "[Together they looked again.|They looked and looked.] At last, {F} found the {thing} {spot3}!",
    kThanks,
    "[From that day on, {H} took good care of the {noun}.|{H} held the {noun} tight all the way "
    "home.|Two pairs of eyes see more than one.|They played with the {noun} until the sun went "
    "down.]",
};

constexpr std::string_view kStuck[] = {
    kOpening,
    "[One day|One {weather} morning|One afternoon], {H} went {to} with a~ {light}.",
    "[It was a windy day.|The wind was strong.] [Whoosh!|Puff!] The wind took the {lnoun} and "
    "[carried|blew] it high up into a tree.",
    "\"Come back!\" [shouted|cried] {H}, but the {lnoun} was stuck.",
    "/",
    "{H} jumped as high as {he} could, but {he} could not reach it.",
    "[Then {he} threw a stick at it, but the stick got stuck, too.|Then {he} tried to climb the "
    "tree, but the branches were too thin.|Then {he} shook the tree, but only leaves fell down.]",
    "?\"I will never get it back,\" {he} said [in a small voice|sadly].",
    "/",
    "{Fintro} [heard {him}|saw {him}] and came to help. \"I have an idea,\" said {F}. \"[Stand on "
    "my back|Let us use a long pole|Let us bring a ladder].\"",
    "?\"Is it safe?\" asked {H}. \"Yes, if we are careful,\" said {F}.",
    "[They tried once. They tried twice. The third time|It was not easy, but in the end|Slowly and "
    "carefully], they got the {light} down.",
    kThanks,
    "?\"[Friends help each other|That is what friends are for],\" said {F}.",
    "[{H} and {F} played together until dinner.|After that, {H} [held on tight|did not let go] "
    "when the wind blew.|They went home with the {light} and big smiles.]",
};

constexpr std::string_view kPet[] = {
    kOpening,
    "[One rainy day|One cold evening|One morning], {H} heard a [small|soft] sound {at}.",
    "[{He} looked {spot1} and found a~ {pet}.|There, {spot1}, sat a~ {pet}.]",
    "The {petnoun} was [cold and wet|all alone|tired and hungry]. It {petcried} [sadly|softly].",
    "?\"Do not be afraid,\" [whispered|said] {H}. \"I will not hurt you.\"",
    "/",
    "{H} [picked up the {petnoun} and carried it home|put the {petnoun} in {his} warm coat and "
    "went home].",
    "\"[Look|See] what I found, {Adult}!\" {he} said. \"Can we help it?\"",
    "\"Of course we can,\" said {his} {adult}. {AHe} gave the {petnoun} {petfood} and made a soft "
    "bed for it in a [box|basket].",
    "?All night, {H} [sat next to|watched over] the {petnoun}.",
    "/",
    "[The next morning|After three days], the {pet} [felt much better|was strong again].",
    "[\"May I keep it?\" asked {H}. \"Yes, if you take good care of it,\" said {his} {adult}. {H} "
    "had a new friend, and {he} was very happy.|Then they saw its mother outside. {H} was a little "
    "sad, but {he} let the {petnoun} go home. {H} never forgot the {pet}.|It ran around the room "
    "and {petcried} happily. Small ones need our help, and {H} was proud to give it.]",
    "?\"You did a good thing,\" said {his} {adult}, and {H} smiled.",
};

constexpr std::string_view kShare[] = {
    "{H} and {F} were [best friends|good friends|neighbors].",
    "?They [met every day|played together almost every day] {at}.",
    "[One day|One afternoon], they found a~ {thing} {spot1}.",
    "\"[It is mine|I want it]! I saw it first!\" said {H}.",
    "\"No, it is mine! I picked it up!\" [said|shouted] {F}.",
    "[{H} pulled and {F} pulled.|They both held the {noun} and would not let go.] [Soon they were "
    "both angry.|Soon nobody was having fun.]",
    "/",
    "{Hs} {adult} came [out|over]. \"Why are you so loud?\" {ahe} asked.",
    "\"We both want the {thing},\" said {F}.",
    "{Hs} {adult} [thought for a moment|smiled]. \"You can take turns,\" {ahe} said. \"{F} can "
    "have it first, and then {H} can have it.\"",
    "?{H} did not like to wait, but {he} said yes.",
    "/",
    "So {F} played with the {noun} [until lunch|for a while], and then {H} played with it.",
    "?Then they found a game that needed two players, and that was the best of all.",
    "\"I am sorry that I shouted,\" said {F}. \"I am sorry, too,\" said {H}.",
    "[It is more fun to share than to fight.|After that, they always took turns.|That evening, "
    "they put the {thing} in a place where both could find it.|They stayed friends for a long, "
    "long time.]",
};

constexpr std::string_view kSkill[] = {
    kOpening,
    "More than anything, {H} wanted to learn to {skill}.",
    "?{F} was very good at {skilling}, and {H} wanted to be just as good.",
    "/",
    "[One day|One {weather} day], {he} tried it for the first time, but {he} {failed}.",
    "[{He} tried again, but it was no better.|The second time was not much better.]",
    "?Some of the others laughed, and {his} face turned red.",
    "\"I will never learn to {skill}!\" [said|cried] {H}.",
    "/",
    "{His} friend {F} sat down next to {him}. \"[Nobody can do it on the first day|I could not do "
    "it at first|It took me a long time, too],\" said {F}. \"[Try a little every day|Do not give "
    "up].\"",
    "So {H} [practiced|tried] every [day|morning|evening]. [Some days were good and some days were "
    "bad.|Every day {he} got a little better.]",
    "?{F} came to watch and [cheered|clapped] each time.",
    "Then, [at the end of the week|after two weeks|one {weather} morning], {H} {did}!",
    "\"[Look|See], I can do it!\" {he} [shouted|called].",
    "\"I knew you could!\" said {F}.",
    "[{H} was so proud that {he} could not stop smiling.|Now {H} helps others who want to "
    "learn.|{H} learned that you can do hard things if you keep trying.|That night, {he} dreamed "
    "about {skilling}.]",
};

constexpr std::string_view kFear[] = {
    kOpening,
    "{H} was [not afraid of many things, but {he} was afraid of {fear}|very much afraid of "
    "{fear}].",
    "/",
    "{scene}",
    "{His} heart began to beat fast. [{He} wanted to run away.|{He} closed {his} eyes.|{He} could "
    "not move.]",
    "?\"Help!\" {he} [called|cried].",
    "{His} {adult} came and took {his} hand. \"What is the matter, {H}?\" {ahe} asked.",
    "\"I am afraid of {fear},\" [whispered|said] {H}.",
    "\"[Everyone is afraid of something|When I was small, I was afraid, too],\" said {his} "
    "{adult}. \"{truth}.\"",
    "/",
    "{H} thought about [this|that]. {He} took a deep breath.",
    "?\"Will you stay with me?\" asked {H}. \"Yes, I am right here,\" said {his} {adult}.",
    "{end}",
    "\"[You are very brave|I am proud of you],\" said {his} {adult}.",
    "[To be brave is to be afraid and to try anyway.|After that, {H} was not so afraid of "
    "{fear}.|{H} felt taller that day.|And when {F} was afraid of something, {H} knew what to "
    "say.]",
};

constexpr std::string_view kGift[] = {
    "[Tomorrow was {Fs} birthday.|It was almost time for {Fs} birthday party.] {H} wanted to give "
    "{F} [a nice gift|something special].",
    "But {he} had [no money|only one small coin].",
    "?{He} looked in the shop window, but everything cost too much.",
    "\"What can I do?\" {he} asked {his} {adult}.",
    "\"[The best gifts are made by hand|You have two good hands],\" said {his} {adult}.",
    "/",
    "{H} [had an idea|thought and thought, and then {he} had an idea]. {He} took {madeof} and went "
    "to work.",
    "{He} worked all [afternoon|evening]. [It was not easy, but it was fun.|{He} made a big mess, "
    "but {he} did not stop.]",
    "At last, it was done. It was a~ {gift}!",
    "?{H} put it in a~ {colour} box.",
    "/",
    "At the party, {F} got many [big gifts|things]. {H} felt shy. \"I made this for you,\" {he} "
    "said [softly|in a small voice].",
    "{F} opened [it|the paper] and [jumped for joy|smiled a big smile]. \"A~ {gift}! You made it "
    "yourself? [I love it!|It is the best gift of all!]\"",
    "{F} {use}.",
    "[{H} was very happy.|{H} felt warm inside.|A gift from the heart is worth more than "
    "gold.|Then everyone ate {food} and sang a song.]",
};

constexpr std::string_view kBroken[] = {
    kOpening,
    "{His} {adult} had a~ {fragile} that was [very old|very dear to {ahim}].",
    "?\"Please be careful with it,\" {ahe} always said.",
    "/",
    "[One day|One rainy afternoon], {H} [ran through the kitchen|played with a ball inside|danced "
    "around the room]. Crash! The {fragile} fell down and broke.",
    "{H} [was scared|felt terrible]. [{He} hid the pieces under the bed.|{He} put the pieces in a "
    "drawer.]",
    "\"Have you seen my {fragile}?\" asked {his} {adult} that evening.",
    "\"No,\" said {H}, but {his} [stomach hurt|face was hot].",
    "?{He} could not eat {his} dinner.",
    "/",
    "That night, {H} could not sleep. [At last, {he} got up|In the end, {he} went to {his} "
    "{adult}] and told the truth.",
    "\"I broke it,\" {he} said. \"I am [so|very] sorry.\"",
    "{His} {adult} was quiet for a moment. \"[Thank you for telling me|It was brave to tell me],\" "
    "{ahe} said. \"I am sad about the {fnoun}, but the truth is more important.\"",
    "?{AHe} gave {H} a hug.",
    "[The next day, they fixed the {fnoun} with glue.|Together they glued the pieces. The "
    "{fragile} was not perfect, but it was good enough.]",
    "[After that, {H} always told the truth.|And {H} slept well again.|{H} felt light as a "
    "feather.|A lie is heavy, but the truth is light.]",
};

constexpr std::string_view kSeed[] = {
    kOpening,
    "[One spring day|In spring], {his} {adult} gave {him} a [tiny|small brown] seed. \"It is a~ "
    "{plant} seed,\" {ahe} said.",
    "{H} [dug a hole|made a small hole] {at} and put the seed in. {He} gave it water.",
    "/",
    "The next day, {he} ran out to look. There was nothing.",
    "[The day after that, there was still nothing.|A whole week went by, and there was still "
    "nothing.]",
    "?\"Maybe it is asleep,\" said {H}.",
    "\"It does not work!\" {he} told {F}. \"I want to dig it up.\"",
    "\"[Wait|Be patient],\" said {F}. \"[Good things take time|A seed needs sun, water, and "
    "time].\"",
    "So {H} waited. Every [day|morning], {he} gave the seed water[| and sang to it].",
    "/",
    "Then, one {weather} morning, {H} saw a [little|tiny] green leaf. \"It is growing!\" {he} "
    "shouted.",
    "?{F} came running to see it.",
    "By the end of summer, the {plant} had grown {grew}.",
    "\"[You took good care of it|You did not give up],\" said {his} {adult}.",
    "{plantend} [{H} kept one seed for the next year.|{H} was glad that {he} had waited.|And {H} "
    "said, \"Good things take time.\"]",
};

constexpr std::string_view kRain[] = {
    "{H} and {F} wanted to have a picnic {at}.",
    "They put {snack} and [some apples|some cheese|a bottle of juice] in a~ {colour} basket.",
    "?{H} also took a~ {thing} to play with.",
    "/",
    "But when they [got there|sat down], dark clouds came. [Plop, plop! It began to rain.|Soon big "
    "drops fell from the sky.]",
    "\"Our picnic is ruined!\" [cried|said] {H}.",
    "{F} [looked sad, too|did not know what to do]. They took the basket and ran [back to the "
    "house|home as fast as they could].",
    "?Their shoes were full of water.",
    "/",
    "{Hs} {adult} opened the door and laughed. \"You two look like wet ducks!\" {ahe} said. \"[Who "
    "says that a picnic must be outside?|We can have a picnic right here.]\"",
    "{AHe} put a blanket on the floor[| and made some hot tea]. {H} and {F} sat down and ate the "
    "{snack}.",
    "They [told stories|sang songs|played a game] while the rain [tapped on the window|fell "
    "outside].",
    "?\"This is better than outside,\" said {F}.",
    "Then the sun came out, and there was a rainbow over {place}.",
    "\"What a good day,\" said {H}[.| with a smile.] [A bad start can have a happy end.|And they "
    "both hoped that it would rain again soon.|They would remember that picnic for a long time.]",
};

constexpr std::string_view kRace[] = {
    kOpening,
    "Every [year|summer], there was a big race {at}. The winner got a~ {colour} ribbon.",
    "{H} [wanted to win|had never won]. {He} ran every morning to get fast.",
    "?\"This year I will win,\" {he} told {his} {adult}.",
    "/",
    "[At last the day came.|Then came the day of the race.] \"Ready, set, go!\" [shouted the "
    "teacher|called the farmer], and everyone ran.",
    "{H} ran [as fast as the wind|faster than ever before]. Soon only {F} was in front of {him}.",
    "Then {F} [tripped over a stone|slipped in the mud] and fell down. \"Ouch! My foot!\" cried "
    "{F}.",
    "/",
    "{H} could see the end of the race. {He} could win! But {he} looked back and saw that {F} was "
    "[hurt|in pain].",
    "{H} stopped. \"[Come on, hold on to me|Take my hand],\" {he} said[.| and helped {F} up.]",
    "Step by step, they walked to the end together. They were the last of all.",
    "?But everybody clapped and cheered for them.",
    "\"You did not win because of me,\" said {F}.",
    "\"[A friend is better than a ribbon|I would rather help you than win],\" said {H}.",
    "[The teacher gave them both a~ {colour} ribbon.|{His} {adult} was very proud of {him}.|And "
    "they both laughed about their dirty shoes.]",
};

constexpr std::string_view kCount[] = {
    "[One day|One {weather} morning|One {weather} day], {H} [found|had] {n} {many}[| in a~ "
    "{colour} basket].",
    "\"One, two, three,\" {he} counted, \"and so on, up to {n}. I have {n} {many}!\"",
    "?{H} wanted to keep them all.",
    "{He} [went|walked] {to} to show them to {F}.",
    "/",
    "{F} was sitting [under a tree|on a bench|on a big stone][ and looked sad|, all alone|]. \"[I "
    "have no {many} at all|I have nothing to play with today],\" said {F}.",
    "{H} looked at {his} {n} {many}. \"[I can share|You can have some of mine],\" {he} said, and "
    "{he} gave {m} {many} to {F}.",
    "\"[Thank you|Oh, thank you], {H}!\" said {F}. Now {F} had {m} {many}, and {H} had {rest} "
    "{many} left.",
    "?{H} counted again to be sure. Yes, there were {rest}.",
    "/",
    "[On the way home|Later], {H} met {his} {adult}. \"Where are the other {many}?\" {ahe} asked. "
    "\"You had {n} this morning.\"",
    "\"I gave {m} of them to {F},\" said {H}. \"So I have {rest}.\"",
    "{His} {adult} [smiled|was very pleased]. \"[You can count well, and you have a good "
    "heart|That was kind of you],\" {ahe} said.",
    "[That evening, they had {food} for dinner, and {H} was happy.|{H} had fewer {many} now, but "
    "{he} had a happier friend.|And {rest} {many} were more than enough.]",
};

constexpr std::string_view kNoise[] = {
    "It was [late|night], and {H} was in bed. The house was [quiet|dark and still].",
    "Then {he} heard a strange sound. \"[What was that|What is that]?\" {he} whispered.",
    "There it was again: {noise}!",
    "?{H} pulled the blanket over {his} head.",
    "/",
    "{H} [got up|climbed out of bed] and went to {his} {adult}. \"There is a monster in the "
    "house,\" {he} said.",
    "\"[Let us go and look|We will see about that],\" said {his} {adult}. {AHe} took a lamp, and "
    "they [walked down the hall|went down the stairs] hand in hand.",
    "{noise}! It was louder now.",
    "?\"I want to go back,\" said {H}. \"Just a few more steps,\" said {his} {adult}.",
    "/",
    "{His} {adult} held up the lamp, and what did they see? It was {source}!",
    "{H} [laughed|began to laugh]. \"That is not a monster at all!\" {he} said.",
    "\"Most monsters are [small when you bring a light|not monsters when you look at them],\" said "
    "{his} {adult}.",
    "?Then they both had a cup of warm milk.",
    "[{H} went back to bed and slept until morning.|{H} went back to {his} room. Soon {he} was "
    "asleep.|In the morning, {he} told {F} all about it, and they laughed together.]",
};

constexpr std::string_view kFound[] = {
    kOpening,
    "[One day|One {weather} afternoon], {H} was walking {at} with {F}.",
    "{Spot1}, they saw a~ {colour} {box}. [{H} opened it.|\"Open it!\" said {F}.] It was full of "
    "{inside}!",
    "\"[Wow|Oh]! Now it is ours,\" said {F}.",
    "{H} [shook {his} head|thought about it]. \"Somebody lost it,\" {he} said. \"[Somebody must be "
    "very sad|We must give it back].\"",
    "/",
    "So they went from door to door. \"Did you lose a~ {colour} {box}?\" they asked.",
    "\"No, not I,\" said the [first man|first woman]. \"No, not I,\" said the [second woman|second "
    "man].",
    "?{F} was tired and wanted to go home. \"One more door,\" said {H}.",
    "At the last door, the {owner} [looked at them with sad eyes|opened]. \"My {box}!\" cried the "
    "{owner}. \"I looked for it all day. Is it full of {inside}?\"",
    "\"Yes, it is,\" said {H}, and gave it back.",
    "/",
    "The {owner} was so [happy|glad] that everyone had to come in and eat {food}.",
    "?\"You are both very honest,\" said the {owner}.",
    "\"[You were right|I am glad that we gave it back],\" {F} told {H} on the way home.",
    "[They felt richer than before.|It feels good to do the right thing.|And the {owner} waved to "
    "them every day after that.]",
};

constexpr Question kLostQuestions[] = {
    {0, "What did {H} have?", "{H} had a~ {thing}."},
    {1, "What did {H} lose?", "{H} lost the {thing}."},
    {1, "Where did {H} take the {noun}?", "{H} took it {to}."},
    {2, "Who found the {thing}?", "{F} found it."},
    {2, "Where was the {thing}?", "It was {spot3}."},
};
constexpr Question kStuckQuestions[] = {
    {0, "What did the wind take?", "The wind took the {lnoun}."},
    {0, "Where did {H} go?", "{H} went {to}."},
    {2, "Who helped {H}?", "{F} helped {him}."},
    {2, "What did they get down?", "They got the {light} down."},
};
constexpr Question kPetQuestions[] = {
    {0, "What did {H} find?", "{H} found a~ {pet}."},
    {0, "Where was the {petnoun}?", "It was {spot1}."},
    {1, "What did the {petnoun} get?", "It got {petfood}."},
    {1, "Who gave the {petnoun} {petfood}?", "{Hs} {adult} did."},
};
constexpr Question kShareQuestions[] = {
    {0, "What did {H} and {F} find?", "They found a~ {thing}."},
    {0, "Where did they find the {noun}?", "They found it {spot1}."},
    {1, "Who came?", "{Hs} {adult} came."},
    {1, "Who can have the {noun} first?", "{F} can have it first."},
    {2, "Who played with the {noun} first?", "{F} played with it first."},
};
constexpr Question kSkillQuestions[] = {
    {0, "What did {H} want to learn?", "{H} wanted to learn to {skill}."},
    {1, "What happened when {H} tried it?", "{He} {failed}."},
    {2, "Who sat down next to {H}?", "{F} sat down next to {him}."},
    {2, "What did {H} do in the end?", "{He} {did}."},
};
constexpr Question kFearQuestions[] = {
    {0, "What was {H} afraid of?", "{H} was afraid of {fear}."},
    {1, "Who came to {H}?", "{Hs} {adult} came."},
    {1, "What was {H} afraid of?", "{H} was afraid of {fear}."},
};
constexpr Question kGiftQuestions[] = {
    {0, "Who had a birthday?", "{F} had a birthday."},
    {1, "What did {H} make?", "{H} made a~ {gift}."},
    {1, "What was the {gift} made of?", "It was made of {madeof}."},
    {2, "What did {F} get from {H}?", "{F} got a~ {gift}."},
};
constexpr Question kBrokenQuestions[] = {
    {0, "What did {Hs} {adult} have?", "{AHe} had a~ {fragile}."},
    {1, "What broke?", "The {fragile} broke."},
    {1, "Who broke the {fnoun}?", "{H} broke it."},
    {2, "What did {H} tell?", "{H} told the truth."},
};
constexpr Question kSeedQuestions[] = {
    {0, "What did {H} get?", "{H} got a~ {plant} seed."},
    {0, "Where did {H} put the seed?", "{H} put it in a hole {at}."},
    {2, "What had grown?", "A~ {plant} had grown."},
    {2, "How had the {plant} grown?", "It had grown {grew}."},
};
constexpr Question kRainQuestions[] = {
    {0, "Where did they want to have a picnic?", "They wanted to have it {at}."},
    {0, "What did they put in the basket?", "They put {snack} in it."},
    {0, "What colour was the basket?", "It was {colour}."},
    {2, "What did {H} and {F} eat?", "They ate {snack}."},
    {2, "Who opened the door?", "{Hs} {adult} opened the door."},
};
constexpr Question kRaceQuestions[] = {
    {0, "What did the winner get?", "The winner got a~ {colour} ribbon."},
    {0, "Where was the race?", "The race was {at}."},
    {1, "Who fell down?", "{F} fell down."},
    {2, "Who was hurt?", "{F} was hurt."},
    {2, "Who stopped?", "{H} stopped."},
};
constexpr Question kCountQuestions[] = {
    {0, "How many {many} did {H} have?", "{H} had {n} {many}."},
    {0, "Where did {H} go?", "{H} went {to}."},
    {1, "How many {many} did {H} give to {F}?", "{H} gave {m} {many} to {F}."},
    {1, "How many {many} did {H} have left?", "{H} had {rest} {many} left."},
};
constexpr Question kNoiseQuestions[] = {
    {0, "What did {H} hear?", "{H} heard {noise}."},
    {1, "What did {Hs} {adult} take?", "{AHe} took a lamp."},
    {2, "What was it?", "It was {source}."},
};
constexpr Question kFoundQuestions[] = {
    {0, "What did they find?", "They found a~ {colour} {box}."},
    {0, "What was in the {box}?", "It was full of {inside}."},
    {0, "Where was the {box}?", "It was {spot1}."},
    {1, "Who lost the {box}?", "The {owner} lost it."},
    {2, "What did they eat?", "They ate {food}."},
};

constexpr Plot kPlots[] = {
    {kLost, kLostQuestions},   {kStuck, kStuckQuestions},   {kPet, kPetQuestions},
    {kShare, kShareQuestions}, {kSkill, kSkillQuestions},   {kFear, kFearQuestions},
    {kGift, kGiftQuestions},   {kBroken, kBrokenQuestions}, {kSeed, kSeedQuestions},
    {kRain, kRainQuestions},   {kRace, kRaceQuestions},     {kCount, kCountQuestions},
    {kNoise, kNoiseQuestions}, {kFound, kFoundQuestions},
};

}  // namespace

std::span<const Plot> Plots() {
  return kPlots;
}

}  // namespace folio::internal

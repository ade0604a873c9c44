#include "folio/bench/words.h"

namespace folio {

const std::string_view kCodeParts =
    "get set data name value type size index node list key id file path str len count is add "
    "buffer max min num new init start end begin next prev first last item map array string int "
    "state info flag mode text line char byte word token error result status message msg code "
    "test check parse read write open close load save create make build update remove delete "
    "insert append push pop find search match compare copy move clear reset free alloc lock "
    "unlock wait run exec call handle handler event user config option options param params arg "
    "args field attr attribute property class object model view table row column cell page image "
    "color width height offset pos position point rect bounds left right top bottom x y z time "
    "date timestamp duration timeout delay interval rate limit range step depth level total sum "
    "avg mean hash tree root parent child children leaf edge graph queue stack heap pool cache "
    "memory mem ptr ref context ctx request response server client session socket connection "
    "conn port host url uri address addr header body content query cursor record entry iterator "
    "iter callback func function method module package import export source target dest src dst "
    "input output in out stream reader writer format encode decode encoder decoder convert "
    "transform filter sort merge split join group batch chunk block frame layer weight bias grad "
    "loss train eval predict label feature vector matrix tensor shape dim axis kernel thread "
    "process task job worker scheduler signal mutex log logger debug trace print dump version "
    "release tag branch commit default base derived abstract virtual public private static const "
    "global local temp tmp backup old current active enabled visible valid empty null none true "
    "false bit mask shift register driver device bus irq clock power sensor";

const std::string_view kCodeCommon =
    "i self n x len size data name value key result args str int p s t r a b c k v j ctx err buf "
    "ptr index item count node list dict path file line text print range append format get set "
    "size_t char void const return_value None True False NULL std string vector push_back begin "
    "end first second nullptr this static_cast uint32_t int64_t uint8_t printf malloc free "
    "memcpy strlen sizeof assert isinstance hasattr getattr super __init__ kwargs os sys re json "
    "time logger";

const std::string_view kCodeModules =
    "os sys re json time logging collections itertools functools typing pathlib subprocess "
    "threading socket struct random math numpy unittest argparse stdio.h stdlib.h string.h "
    "stdint.h errno.h unistd.h assert.h vector string memory algorithm utility linux/kernel.h "
    "sys/types.h";

}  // namespace folio

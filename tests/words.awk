# Reads C++ files and prints one line for each mistake of words; see words.cmake.
#   awk -v paths=FILE -f words.awk FILE...
# FILE `paths` lists every file of the repository, one path a line.

BEGIN {
  while ((getline path < paths) > 0) {
    known[path] = 1
    while (sub(/^[^\/]*\//, "", path)) known[path] = 1  # by every ending of its path
  }
  # Files of other projects.
  split("convert_hf_to_gguf.py linux/landlock.h prepare.py sample.py", names, " ")
  for (i in names) others[names[i]] = 1
}

# Splits a line into `code`, without strings and comments, and `comment`, without its slashes. `raw` is the end of a
# raw string that is open, `block` is true inside of /* */; both live on to the next line.
function split_line(line,   i, c, end) {
  code = ""
  comment = ""
  column = -2
  while (line != "") {
    if (raw != "") {
      i = index(line, raw)
      if (i == 0) return
      line = substr(line, i + length(raw))
      raw = ""
    } else if (block) {
      i = index(line, "*/")
      column = 0
      comment = comment (i == 0 ? line : substr(line, 1, i - 1))
      if (i == 0) return
      line = substr(line, i + 2)
      block = 0
    } else {
      i = match(line, /["'\/]/)
      if (i == 0) {
        code = code line
        return
      }
      code = code substr(line, 1, i - 1)
      c = substr(line, i, 1)
      line = substr(line, i)
      if (c == "/" && line ~ /^\/\//) {
        column = length($0) - length(line)
        sub(/^\/\/[\/!<]*/, "", line)
        comment = comment line
        return
      } else if (c == "/" && line ~ /^\/\*/) {
        line = substr(line, 3)
        block = 1
        in_column = -1
      } else if (c == "/") {
        code = code c
        line = substr(line, 2)
      } else if (c == "\"" && code ~ /R$/) {
        end = index(line, "(")
        raw = ")" substr(line, 2, end - 2) "\""
        line = substr(line, end + 1)
      } else if (c == "'" && code ~ /[0-9a-fA-F]$/) {  # 1'000
        line = substr(line, 2)
      } else if (match(line, c == "\"" ? "^\"([^\"\\\\]|\\\\.)*\"" : "^'([^'\\\\]|\\\\.)*'")) {
        code = code c c
        line = substr(line, RLENGTH + 1)
      } else {
        return  # a string that goes on in the next line
      }
    }
  }
}

function mistake(text) { print FILENAME ":" FNR ": " text }

FNR == 1 { raw = ""; block = 0; in_column = -1 }

{
  split_line($0)

  gsub(/[a-z]+:\/\/[^ ]*|<[^ ]*>/, "", comment)  # addresses, headers of the system
  if (comment ~ /[^ ]/ && (column != in_column || code ~ /[^ ]/) &&
      match(comment, /^ *(What|Whether|Who|Those|Of|Nor)([^A-Za-z0-9_]|$)/)) {
    match(comment, /[A-Z][a-z]+/)
    mistake("a comment begins with " substr(comment, RSTART, RLENGTH) ", not as a clause with a subject")
  }
  in_column = comment ~ /[^ ]/ ? column : -1  # one comment goes on below its beginning

  if (code ~ /(^|[^A-Za-z0-9_])of([^A-Za-z0-9_]|$)/ && code !~ /^ *#/) mistake("'of' is no name")

  while (match(comment, /[A-Za-z0-9_][A-Za-z0-9_.\/-]*\.(cmake|cc|h|md|sh|py)([^A-Za-z0-9_(]|$)/)) {
    name = substr(comment, RSTART, RLENGTH)
    comment = substr(comment, RSTART + RLENGTH)
    sub(/[^A-Za-z]$/, "", name)
    if (!(name in known) && !(name in others)) mistake("no file " name)
  }
}

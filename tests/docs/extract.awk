# Turns the C++ of a page into tests. Each ```cpp block becomes a namespace, where it is a program (it has a main, which
# runs in a folder of its own and whose result must be 0) or declarations (it starts with #include, struct or class), and
# otherwise statements that are run. Of a table under "| PyTorch | Tandem |" each row becomes a test of its second cell,
# in which the names of tests/docs/names.h may be used.
# usage: awk -v page=NAME -f extract.awk PAGE.md > TEST.cpp

function quoted(s) {
  gsub(/\\/, "\\\\", s)
  gsub(/"/, "\\\"", s)
  return "\"" s "\""
}

function code_of(cell) {
  gsub(/^ *`|` *$/, "", cell)
  return cell
}

function run_statements(title, statements) {
  body = body "TEST_CASE_FIXTURE(tandem::docs::Names, " title ") {\n" \
    "auto run = [&] {\n" statements "};\nCHECK_NOTHROW(run());\n}\n\n"
}

function finish_block(  name, title) {
  name = "block_" ++blocks
  title = quoted(page ", the block at line " start)
  if (block ~ /int main\(/) {
    sub(/int main\(/, "int run(", block)
    sub(/}[ \n]*$/, "  return 0;\n}\n", block)  # which main may leave out
    body = body "namespace " name " {\n" block "}\nTEST_CASE(" title ") {\n" \
      "tandem::docs::InFolderOfItsOwn guard;\nCHECK(" name "::run() == 0);\n}\n\n"
  } else if (declares) {
    body = body "namespace " name " {\n" block "}\nusing namespace " name ";\n\n"
  } else {
    run_statements(title, block)
  }
}

/^```/ {
  if (inside) {
    inside = 0
    finish_block()
  } else if ($0 == "```cpp") {
    inside = 1
    start = NR
    block = ""
    declares = 0
  } else {
    foreign = !foreign
  }
  next
}

inside {
  if (block == "" && /^(#include|struct|class)/) declares = 1
  if (/^#include/) {
    includes = includes $0 "\n"
    declares = 1
  } else {
    block = block $0 "\n"
  }
  next
}

/^\| *PyTorch *\| *Tandem *\|/ { table = 1; next }
!/^\|/ { table = 0 }
table && /^\|[-| ]+$/ { next }
table {
  split($0, cells, "|")
  code = code_of(cells[3])
  if (code !~ /[;}]$/) code = code ";"
  run_statements(quoted(page ", line " NR ": " code_of(cells[2])), "  " code "\n")
}

END {
  print "// Generated from " page ".\n#include \"tests/docs/names.h\"\n"
  print includes
  print "#include <doctest/doctest.h>\n\nusing namespace tandem;\n"
  print body
}

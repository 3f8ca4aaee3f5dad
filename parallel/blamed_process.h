/// Not installed. Which process the groups of this one blame for their end, for whoever has started the processes:
/// tandem-run reads it in the file that TANDEM_ERROR_FILE names, spawn asks in the process itself. Processes are
/// numbered as they were started; the ranks of a group are more where threads are ranks.
#pragma once
#include <string>

namespace tandem {

/// A group of several processes has come to this verdict; -1 where nobody is to blame.
void blame_process(int process, const std::string& why);
/// By the last verdict; -1 without one.
int blamed_process();

}  // namespace tandem

/// Not installed. What the ranks check before they train one model together.
#pragma once
#include <tandem/nn/named_tensors.h>
#include <tandem/parallel/communicator.h>

namespace tandem {

/// Throws CommError, on every rank alike, where the tensors differ from rank 0's in names, order, shapes, dtypes or in
/// whether they require grad: every difference of every rank is listed. Collective.
TANDEM_API void require_same_model(Communicator& c, const nn::NamedTensors& tensors);

/// The root's values everywhere. Collective.
void broadcast_tensors(Communicator& c, const nn::NamedTensors& tensors, int root);

/// Throws CommError naming ranks and tensors whose values differ from rank 0's. Collective.
void require_same_values(Communicator& c, const nn::NamedTensors& tensors);

}  // namespace tandem

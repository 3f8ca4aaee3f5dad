#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/data_parallel.h>
#include <tandem/parallel/replica_gradients.h>
#include <tandem/parallel/replica_pool.h>

#include <algorithm>

namespace tandem {
namespace {

std::vector<Device> chosen_devices(const nn::Module& module, std::vector<Device> devices) {
  if (devices.empty()) {
    Device first = current_device();
    if (auto p = module.state_dict(); !p.empty()) first = p[0].second.device();
    devices.push_back(first);
    for (int i = 0; i < device_count(first.kind); ++i)
      if (Device d{first.kind, uint8_t(i)}; !(d == first)) devices.push_back(d);
  }
  for (auto d = devices.begin(); d != devices.end(); ++d) {
    require_device(*d);
    check<DeviceError>(std::find(devices.begin(), d, *d) == d, "[DataParallel] ", *d, " is given twice");
  }
  return devices;
}

// A batch of n samples in parts that differ by at most one; the first ones are the larger.
struct Split {
  int64_t n;
  int parts;
  Split(int64_t samples, size_t replicas)
      : n(samples), parts(int(std::clamp<int64_t>(samples, 1, int64_t(replicas)))) {}
  int64_t begin(int r) const { return n / parts * r + std::min<int64_t>(r, n % parts); }
  int64_t size(int r) const { return begin(r + 1) - begin(r); }
  double weight(int r) const { return n ? double(size(r)) / double(n) : 1; }
  Tensor of(const Tensor& t, int r) const { return t.narrow(0, begin(r), size(r)); }
};

Tensor on(Device d, const Tensor& t) {
  return t.device() == d ? t : copy_of(t, {.dtype = t.dtype(), .device = d, .layout = t.layout()});
}

// What one call leaves behind for its backward.
struct Pass {
  struct Part {
    Tensor x, y;
    int64_t row = 0, rows = 0;  // its place in the output
  };
  Pass(int64_t samples, size_t replicas) : split(samples, replicas), parts(size_t(split.parts)) {}
  Part& part(int r) { return parts[size_t(r)]; }
  Split split;
  std::vector<Part> parts;   // of each replica at work
  uint64_t generation = 0;   // of the twins
  uint64_t random_call = 0;  // replica 0's random state at the end of its forward
  LazyGenerator generator;
};

// A replica's output as rows to be put together: what has no dimensions is one row.
Tensor as_rows(const Tensor& y) { return y.dim() ? y.detach() : y.detach().reshape({1}); }

}  // namespace

// Tasks hold it, and what else they use, for as long as they run: one that is late must find it all there.
struct DataParallel::State : std::enable_shared_from_this<State> {
  State(nn::Module& m, std::vector<Device> d, Options o)
      : module(m),
        devices(chosen_devices(m, std::move(d))),
        pool(devices, o.threads ? o.threads : std::max(1, num_threads() / int(devices.size())), o.timeout),
        twins(m, pool.replicas()),
        gradients(twins, {o.first_bucket_bytes, o.bucket_bytes}) {}
  ~State() {
    if (!pool.usable()) twins.abandon();
  }

  std::shared_ptr<Pass> start(const Tensor& x);
  void run(const std::shared_ptr<Pass>& pass, const char* what, std::function<void(int)> task);
  void compute(Pass& pass, int r, const Tensor& x, bool x_grad);
  void take_random_state(Pass& pass);
  Tensor gather(Pass& pass);
  void backward(const std::shared_ptr<Pass>& pass, const Tensor& gy, Targets t);
  void give_input_gradient(Pass& pass, Target target);
  void lay_out(const Pass& pass);
  Tensor forward(const Tensor& x);
  Tensor step(const Tensor& x, const Tensor& target, LossFunction loss);
  std::vector<TensorRef> with_parameters(std::initializer_list<TensorRef> first) const;

  nn::Module& module;
  const std::vector<Device> devices;
  ReplicaPool pool;
  ReplicaTwins twins;
  ReplicaGradients gradients;
};

// -- forward ----------------------------------------------------------------------------------------------------

std::shared_ptr<Pass> DataParallel::State::start(const Tensor& x) {
  pool.require_usable();  // a late replica may be using what the next lines change
  check<ShapeError>(x.dim() > 0, "[DataParallel] the input has no dimension to split");
  twins.update();
  auto pass = std::make_shared<Pass>(x.size(0), devices.size());
  pass->generation = twins.generation();
  return pass;
}

void DataParallel::State::run(const std::shared_ptr<Pass>& pass, const char* what, std::function<void(int)> task) {
  pool.run(pass->split.parts, what, [self = shared_from_this(), pass, task = std::move(task)](int r) { task(r); });
}

void DataParallel::State::compute(Pass& pass, int r, const Tensor& x, bool x_grad) {
  RandomStep& random = context().random;
  random.row_offset += pass.split.begin(r);
  Tensor share = on(devices[size_t(r)], pass.split.of(x, r));
  if (x_grad) pass.part(r).x = share.set_requires_grad();
  pass.part(r).y = module(std::move(share));
  if (r != 0) return;
  pass.random_call = random.call;
  pass.generator = context().generator;
}

void DataParallel::State::take_random_state(Pass& pass) {
  context().random.call = pass.random_call;
  context().generator = std::move(pass.generator);
}

Tensor DataParallel::State::gather(Pass& pass) {
  Tensor first = as_rows(pass.part(0).y);
  Dims shape = first.shape();
  int64_t rows = 0;
  for (int r = 0; r < pass.split.parts; ++r) {
    Pass::Part& p = pass.part(r);
    Dims one = as_rows(p.y).shape();
    p.row = rows;
    p.rows = one[0];
    rows += one[0];
    one[0] = shape[0];
    check<ShapeError>(one == shape && p.y.dtype() == first.dtype(), "[DataParallel] replica 0 returned ",
                      pass.part(0).y.shape(), " of ", first.dtype(), ", replica ", r, " ", p.y.shape(), " of ",
                      p.y.dtype());
  }
  shape[0] = rows;
  Tensor y = empty(shape, {.dtype = first.dtype(), .device = devices[0], .layout = first.layout()});
  for (Pass::Part& p : pass.parts) copy_into({y.narrow(0, p.row, p.rows), 0}, as_rows(p.y));
  return y;
}

std::vector<TensorRef> DataParallel::State::with_parameters(std::initializer_list<TensorRef> first) const {
  std::vector<TensorRef> list(first);
  for (auto& p : twins.parameters()) list.push_back(p);
  return list;
}

Tensor DataParallel::State::forward(const Tensor& x) {
  auto pass = start(x);
  const bool x_grad = context().grad && x.requires_grad();
  run(pass, "its forward", [this, pass, x = x.detach(), x_grad](int r) { compute(*pass, r, x, x_grad); });
  take_random_state(*pass);
  Tensor y = gather(*pass);
  if (std::none_of(pass->parts.begin(), pass->parts.end(), [](auto& p) { return p.y.requires_grad(); })) return y;
  const auto inputs = with_parameters({x});
  return record("DataParallel", std::move(y), inputs, [self = shared_from_this(), pass](Tensor& gy, Targets t) {
    self->backward(pass, gy, t.subspan(1));
    if (t[0]) self->give_input_gradient(*pass, t[0]);
  });
}

// -- backward ---------------------------------------------------------------------------------------------------

void DataParallel::State::lay_out(const Pass& pass) {
  std::vector<Tensor> results;
  for (auto& p : pass.parts) results.push_back(p.y);
  gradients.lay_out(results);
}

void DataParallel::State::backward(const std::shared_ptr<Pass>& pass, const Tensor& gy, Targets targets) {
  pool.require_usable();
  check(pass->generation == twins.generation(),
        "[DataParallel] parameters were frozen or thawed, and the wrapper called, since the forward of this backward");
  twins.follow_memory();
  if (!gradients.ready()) lay_out(*pass);
  gradients.open(targets, pass->split.parts);
  run(pass, "its backward", [this, pass, gy, retain = context().retain_graph](int r) {
    Pass::Part& p = pass->part(r);
    Tensor g = on(devices[size_t(r)], gy.narrow(0, p.row, p.rows)).reshape(p.y.shape());
    gradients.backward(r, p.y, g, retain);
    if (!retain) p.y = {};
  });
  gradients.close();
}

void DataParallel::State::give_input_gradient(Pass& pass, Target target) {
  if (std::none_of(pass.parts.begin(), pass.parts.end(), [](auto& p) { return p.x.grad().defined(); })) return;
  Out gx = target.out();
  for (int r = 0; r < pass.split.parts; ++r) {
    Tensor to = pass.split.of(gx.t, r);
    const Tensor& x = pass.part(r).x;
    if (Tensor g = x.grad())
      copy_into({to, gx.beta}, g);
    else if (gx.beta == 0)
      fill_into(to, 0);
    x.zero_grad();
  }
}

// -- a whole step -----------------------------------------------------------------------------------------------

Tensor DataParallel::State::step(const Tensor& x, const Tensor& target, LossFunction loss_of) {
  check<ShapeError>(target.dim() > 0 && x.dim() > 0 && target.size(0) == x.size(0), "[DataParallel] step has input ",
                    x.shape(), " and target ", target.shape(), ", which differ in their numbers of samples");
  auto pass = start(x);
  EnableGradGuard enable;
  auto forward_of = [this, pass, x = x.detach(), target = target.detach(), loss_of = std::move(loss_of)](int r) {
    EnableGradGuard enable;
    compute(*pass, r, x, false);
    Tensor& y = pass->part(r).y;
    y = loss_of(y, on(devices[size_t(r)], pass->split.of(target, r)));
    check<ShapeError>(y.numel() == 1, "[DataParallel] step takes a loss of one number, got shape ", y.shape());
  };
  auto losses = std::make_shared<std::vector<Tensor>>(pass->parts.size());
  auto backward_of = [this, pass, losses](int r) {
    Tensor& y = pass->part(r).y;
    Tensor weight = full(y.shape(), pass->split.weight(r), {.dtype = y.dtype(), .device = y.device()});
    gradients.backward(r, y, weight, false);
    (*losses)[size_t(r)] = y.detach();
    y = {};
  };
  // The step is the backward of a tensor whose closure does it all: the engine sees to targets, hooks and observers.
  Tensor root = zeros({}, {.device = devices[0]});
  const auto inputs = with_parameters({});
  check(wants_grad(inputs), "[DataParallel] step has no parameter that requires grad");
  root = record("DataParallel.step", root, inputs, [&](Tensor&, Targets targets) {
    const bool whole = gradients.ready();
    if (!whole) {  // the first time, forward tells in which order
      run(pass, "its forward", forward_of);
      lay_out(*pass);
    }
    gradients.open(targets, pass->split.parts);
    run(pass, whole ? "its step" : "its backward", [whole, forward_of, backward_of](int r) {
      if (whole) forward_of(r);
      backward_of(r);
    });
    gradients.close();
  });
  root.backward();
  take_random_state(*pass);
  NoGradGuard no_grad;
  Tensor total = on(devices[0], (*losses)[0]).reshape({}) * pass->split.weight(0);
  for (int r = 1; r < pass->split.parts; ++r)
    total.add_(on(devices[0], (*losses)[size_t(r)]).reshape({}), pass->split.weight(r));
  return total;
}

// -- the wrapper ------------------------------------------------------------------------------------------------

DataParallel::DataParallel(nn::Module& module, std::vector<Device> devices, Options options)
    : state_(std::make_shared<State>(module, std::move(devices), options)) {}
DataParallel::~DataParallel() = default;

Tensor DataParallel::forward(const Tensor& x) { return state_->forward(x); }
Tensor DataParallel::step_with(const Tensor& x, const Tensor& target, LossFunction loss) {
  return state_->step(x, target, std::move(loss));
}
nn::Module& DataParallel::module() const { return state_->module; }
const std::vector<Device>& DataParallel::devices() const { return state_->devices; }
size_t DataParallel::shared_bytes(int replica) const {
  check(replica >= 0 && size_t(replica) < state_->devices.size(), "[DataParallel] replica ", replica, " of ",
        state_->devices.size());
  return state_->twins.shared_bytes(size_t(replica));
}

}  // namespace tandem

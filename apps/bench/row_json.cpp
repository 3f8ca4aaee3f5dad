#include "apps/bench/parallel.h"

#include <nlohmann/json.hpp>

namespace tandem::bench {

using Json = nlohmann::ordered_json;

std::string to_json(const Row& r, bool with_timeline) {
  const StepSplit& s = r.split;
  Json j = {{"net", r.net},
            {"width", r.width},
            {"batch", r.batch},
            {"mode", r.mode},
            {"replicas", r.replicas},
            {"threads", r.threads},
            {"bucket_mb", r.bucket_mb},
            {"delay_ms", r.delay_ms},
            {"best_ms", r.best_ms},
            {"median_ms", r.median_ms},
            {"images_s", r.images_s},
            {"efficiency", r.efficiency},
            {"traced_ms", r.traced_ms},
            {"split",
             {{"data", s.data},
              {"forward", s.forward},
              {"backward", s.backward},
              {"exposed", s.exposed},
              {"optimizer", s.optimizer}}},
            {"communication_ms", s.communication},
            {"hidden", r.hidden()},
            {"bytes", s.bytes},
            {"memory_mb", r.memory_mb},
            {"optimizer_mb", r.optimizer_mb},
            {"memory_spread", r.memory_spread()},
            {"buckets", Json::array()},
            {"load", r.load}};
  for (auto& b : r.buckets) j["buckets"].push_back({{"bytes", b.bytes}, {"ready_ms", b.ready_ms}});
  if (with_timeline) {
    Json list = Json::array();
    for (auto& e : r.timeline)
      list.push_back(Json::array({e.who, e.thread, e.kind, e.name, e.label, e.begin_ns, e.end_ns, e.bytes}));
    j["timeline"] = std::move(list);
  }
  return j.dump();
}

Row row_from_json(const std::string& line) {
  const Json j = Json::parse(line);
  const Json& s = j.at("split");
  Row r;
  j.at("net").get_to(r.net);
  j.at("width").get_to(r.width);
  j.at("batch").get_to(r.batch);
  j.at("mode").get_to(r.mode);
  j.at("replicas").get_to(r.replicas);
  j.at("threads").get_to(r.threads);
  j.at("bucket_mb").get_to(r.bucket_mb);
  j.at("delay_ms").get_to(r.delay_ms);
  j.at("best_ms").get_to(r.best_ms);
  j.at("median_ms").get_to(r.median_ms);
  j.at("images_s").get_to(r.images_s);
  j.at("efficiency").get_to(r.efficiency);
  j.at("traced_ms").get_to(r.traced_ms);
  s.at("data").get_to(r.split.data);
  s.at("forward").get_to(r.split.forward);
  s.at("backward").get_to(r.split.backward);
  s.at("exposed").get_to(r.split.exposed);
  s.at("optimizer").get_to(r.split.optimizer);
  j.at("communication_ms").get_to(r.split.communication);
  j.at("bytes").get_to(r.split.bytes);
  j.at("memory_mb").get_to(r.memory_mb);
  j.at("optimizer_mb").get_to(r.optimizer_mb);
  for (auto& b : j.at("buckets")) r.buckets.push_back({b.at("bytes"), b.at("ready_ms")});
  j.at("load").get_to(r.load);
  for (auto& e : j.at("timeline")) r.timeline.push_back({e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]});
  return r;
}

std::string to_json(const Prediction& p) {
  return Json{{"net", p.net},
              {"width", p.width},
              {"batch", p.batch},
              {"bucket_mb", p.bucket_mb},
              {"link", p.link},
              {"bandwidth_gb_s", p.bandwidth_gb_s},
              {"latency_us", p.latency_us},
              {"speedup", p.speedup},
              {"devices", p.devices},
              {"step_ms", p.step_ms},
              {"exposed_ms", p.exposed_ms},
              {"images_s", p.images_s},
              {"efficiency", p.efficiency},
              {"model", true}}
      .dump();
}

}  // namespace tandem::bench

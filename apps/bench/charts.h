/// Charts of `tandem-bench parallel` as inline SVG.
#pragma once
#include "apps/bench/parallel.h"

#include <utility>

namespace tandem::bench {

/// For text and for attributes.
std::string escaped(const std::string& text);

struct Bar {
  std::string label;
  std::vector<std::pair<std::string, double>> parts;  // side by side, each with its name
};
struct BarChart {
  std::string unit;
  double mark = 0;  // a line across all bars, unless 0
  std::vector<Bar> bars;
};
std::string svg_bars(const BarChart& chart);

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
/// Over numbers of devices, on a scale of doublings; values from 0 to 1.
std::string svg_lines(const std::vector<Line>& lines);

/// A step's timeline: a band per rank, replica or caller, with a line for phases, one for closures, one for kernels
/// and one for communication.
std::string svg_timeline(const std::vector<Event>& events);
std::string svg_timeline_legend();

}  // namespace tandem::bench

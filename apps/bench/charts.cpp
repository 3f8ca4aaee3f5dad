#include "apps/bench/charts.h"

#include <tandem/core/error.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace tandem::bench {
namespace {

constexpr const char *kBlue = "#4c78a8", *kOrange = "#f58518", *kGreen = "#54a24b", *kRed = "#e45756",
                     *kPurple = "#b279a2", *kBrown = "#9d755d", *kTeal = "#72b7b2", *kGrey = "#8c8c8c",
                     *kPink = "#f2a6a6", *kBlack = "#222";
constexpr const char* kColours[] = {kBlue, kOrange, kGreen, kRed, kPurple, kBrown, kTeal};
constexpr int kWidth = 1080, kLabels = 290, kPlot = kWidth - kLabels - 130, kRow = 22;

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(v) >= 100 ? "%.0f" : std::abs(v) >= 10 ? "%.1f" : "%.3g", v);
  return text;
}

std::string svg(int height, const std::string& inside) {
  return message("<svg viewBox=\"0 0 ", kWidth, ' ', height, "\" width=\"100%\" role=\"img\">", inside, "</svg>\n");
}

// A pixel to a decimal: more would only make the page larger.
std::string pixel(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start") {
  return message("<text x=\"", pixel(x), "\" y=\"", pixel(y), "\" text-anchor=\"", anchor, "\">", escaped(text),
                 "</text>");
}

std::string rect(double x, double y, double w, double h, const std::string& fill, const std::string& title) {
  return message("<rect x=\"", pixel(x), "\" y=\"", pixel(y), "\" width=\"", pixel(std::max(w, 0.3)), "\" height=\"",
                 pixel(h), "\" fill=\"", fill, "\"><title>", escaped(title), "</title></rect>");
}

std::string legend(const std::vector<std::pair<std::string, std::string>>& entries, int y, double x = kLabels) {
  std::string out;
  for (auto& [name, colour] : entries) {
    out += rect(x, y, 12, 12, colour, name) + text_at(x + 17, y + 11, name);
    x += 34 + 7.5 * double(name.size());
  }
  return out;
}

// Of a part of a step, the same in all charts; null for another name.
const char* colour_of(const std::string& part) {
  static const std::map<std::string, const char*> known = {
      {"data", kBrown},  {"forward", kBlue},      {"backward", kOrange},           {"optimizer", kPurple},
      {"step", kGrey},   {"communication", kRed}, {"exposed communication", kRed}, {"kernel", kGreen},
      {"ready", kBlack}, {"delay", kPink}};
  const auto found = known.find(part);
  return found == known.end() ? nullptr : found->second;
}

const char* colour_of(const Event& e) {
  if (e.kind == "phase") return colour_of(e.name);
  if (e.kind == "closure") return kOrange;
  return colour_of(e.kind == "collective" ? "communication" : e.kind);
}

// Which line of its band an event stands on.
int line_of(const Event& e) { return e.kind == "phase" ? 0 : e.kind == "closure" ? 1 : e.kind == "kernel" ? 2 : 3; }

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string svg_bars(const BarChart& chart) {
  double largest = chart.mark;
  std::vector<std::pair<std::string, std::string>> names;  // and their colours
  for (auto& bar : chart.bars) {
    double sum = 0;
    for (auto& [name, value] : bar.parts) {
      sum += value;
      if (std::any_of(names.begin(), names.end(), [&, &name = name](auto& n) { return n.first == name; })) continue;
      const char* known = colour_of(name);
      names.emplace_back(name, known ? known : kColours[names.size() % 7]);
    }
    largest = std::max(largest, sum);
  }
  auto colour = [&](const std::string& name) {
    return std::find_if(names.begin(), names.end(), [&](auto& n) { return n.first == name; })->second;
  };
  const double scale = largest > 0 ? kPlot / largest : 0;
  std::string out;
  int y = 4;
  for (auto& bar : chart.bars) {
    out += text_at(kLabels - 8, y + 15, bar.label, "end");
    double x = kLabels, sum = 0;
    for (auto& [name, value] : bar.parts) {
      const std::string title =
          message(bar.label, ": ", number(value), ' ', chart.unit, name.empty() ? "" : ", ", name);
      out += rect(x, y, value * scale, kRow - 5, colour(name), title);
      x += value * scale;
      sum += value;
    }
    out += text_at(x + 6, y + 14, message(number(sum), ' ', chart.unit));
    y += kRow;
  }
  if (chart.mark > 0)
    out += message("<line x1=\"", pixel(kLabels + chart.mark * scale), "\" x2=\"", pixel(kLabels + chart.mark * scale),
                   "\" y1=\"0\" y2=\"", y, "\" stroke=\"#333\" stroke-dasharray=\"4 3\"/>");
  if (names.size() > 1) {
    out += legend(names, y + 4);
    y += kRow;
  }
  return svg(y + 4, out);
}

std::string svg_lines(const std::vector<Line>& lines) {
  constexpr int kTop = 10, kHeight = 220;
  double largest = 2;
  for (auto& l : lines)
    for (auto& p : l.points) largest = std::max(largest, p.first);
  auto x_of = [&](double n) { return 60 + (kWidth - 120) * std::log2(n) / std::log2(largest); };
  auto y_of = [&](double v) { return kTop + kHeight * (1 - v); };
  std::string out;
  for (double v : {0., 0.25, 0.5, 0.75, 1.})
    out += message("<line x1=\"60\" x2=\"", kWidth - 60, "\" y1=\"", pixel(y_of(v)), "\" y2=\"", pixel(y_of(v)),
                   "\" stroke=\"#ddd\"/>") +
           text_at(52, y_of(v) + 4, number(v), "end");
  for (double n = 1; n <= largest; n *= 2) out += text_at(x_of(n), kTop + kHeight + 18, message(n), "middle");
  int y = kTop + kHeight + 30;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string points = message(pixel(x_of(1)), ',', pixel(y_of(1)));
    for (auto& [n, v] : lines[i].points) {
      points += message(' ', pixel(x_of(n)), ',', pixel(y_of(v)));
      out +=
          message("<circle cx=\"", pixel(x_of(n)), "\" cy=\"", pixel(y_of(v)), "\" r=\"3\" fill=\"", kColours[i % 7],
                  "\"><title>", escaped(lines[i].name), ", ", number(n), " devices: ", number(v), "</title></circle>");
    }
    out += message("<polyline points=\"", points, "\" fill=\"none\" stroke=\"", kColours[i % 7], "\"/>");
    out += rect(60, y, 12, 12, kColours[i % 7], lines[i].name) + text_at(78, y + 11, lines[i].name);
    y += 18;
  }
  return svg(y + 4, out);
}

std::string svg_timeline(const std::vector<Event>& events) {
  constexpr int kLeft = 130, kLine = 17, kBand = 4 * kLine + 10;
  static constexpr const char* kLines[] = {"phases", "closures", "kernels", "comm."};
  double first = 0, last = 1;
  std::vector<std::string> bands;
  for (auto& e : events) {
    first = std::min(first, double(e.begin_ns) / 1000);
    last = std::max(last, double(e.end_ns) / 1000);
    if (std::find(bands.begin(), bands.end(), e.who) == bands.end()) bands.push_back(e.who);
  }
  std::sort(bands.begin(), bands.end());
  const double scale = (kWidth - kLeft - 25) / (last - first);
  const int bottom = int(bands.size()) * kBand;
  std::string out;
  // About ten marks, at round milliseconds.
  double every = std::pow(10, std::floor(std::log10((last - first) / 1000 / 10)));  // ms
  for (double factor : {1., 2., 5., 10.})
    if ((last - first) / 1000 / (every * factor) <= 12) {
      every *= factor;
      break;
    }
  for (int i = int(std::ceil(first / 1000 / every)); i * every * 1000 <= last; ++i) {
    const double x = kLeft + (i * every * 1000 - first) * scale;
    char tick[32];
    std::snprintf(tick, sizeof tick, "%g ms", i * every);
    out +=
        message("<line x1=\"", pixel(x), "\" x2=\"", pixel(x), "\" y1=\"0\" y2=\"", bottom, "\" stroke=\"#e4e4e4\"/>") +
        text_at(x, bottom + 14, tick, "middle");
  }
  for (size_t b = 0; b < bands.size(); ++b) {
    const int top = int(b) * kBand;
    out += message("<text x=\"0\" y=\"", top + 13, "\" font-weight=\"bold\">", escaped(bands[b]), "</text>");
    for (int line = 0; line < 4; ++line) out += text_at(kLeft - 6, top + line * kLine + 13, kLines[line], "end");
  }
  for (auto& e : events) {
    const auto band = std::find(bands.begin(), bands.end(), e.who) - bands.begin();
    const double begin = double(e.begin_ns) / 1000, us = double(e.end_ns - e.begin_ns) / 1000;
    std::string title = message(e.name, e.label.empty() ? "" : ": ", e.label, ", ", number(us / 1000), " ms from ",
                                number(begin / 1000));
    if (e.bytes) title += message(", ", number(double(e.bytes) / 1e6), " MB");
    const double x = kLeft + (begin - first) * scale, y = double(band) * kBand + line_of(e) * kLine + 2;
    out += rect(x, y, us * scale, kLine - 3, colour_of(e), title);
    if (e.kind == "phase" && us * scale > 8 * double(e.name.size()))
      out +=
          message("<text class=\"on\" x=\"", pixel(x + 4), "\" y=\"", pixel(y + 11), "\">", escaped(e.name), "</text>");
  }
  return svg(bottom + 22, out);
}

std::string svg_timeline_legend() {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const char* name : {"data", "forward", "backward", "optimizer", "step"})
    entries.emplace_back(name, colour_of(name));
  entries.emplace_back("closure: one gradient", kOrange);
  entries.emplace_back("kernel", kGreen);
  entries.emplace_back("collective", kRed);
  entries.emplace_back("bucket ready", kBlack);
  entries.emplace_back("delay", kPink);
  return svg(18, legend(entries, 2, 0));
}

}  // namespace tandem::bench

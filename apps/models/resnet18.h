/// ResNet-18 in its CIFAR form: a 3x3 stem without pooling, four stages of two blocks (He et al. 2015; layers and keys
/// are named as in torchvision).
#pragma once
#include <tandem/tandem.h>

#include <memory>
#include <vector>

namespace tandem::models {

struct BasicBlock : nn::Module {
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::unique_ptr<nn::Sequential> downsample;  // where the shape changes

  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(in, out, {.kernel = 3, .stride = stride, .padding = 1, .bias = false}),
        bn1(out),
        conv2(out, out, {.kernel = 3, .padding = 1, .bias = false}),
        bn2(out) {
    add("conv1", conv1);
    add("bn1", bn1);
    add("conv2", conv2);
    add("bn2", bn2);
    if (stride == 1 && in == out) return;
    downsample = std::make_unique<nn::Sequential>();
    downsample->append<nn::Conv2d>(in, out, {.kernel = 1, .stride = stride, .bias = false})
        .append<nn::BatchNorm2d>(out);
    add("downsample", *downsample);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(h + (downsample ? (*downsample)(x) : x));
  }
};

struct ResNet18 : nn::Module {
  nn::Conv2d conv1{3, 64, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{64};
  nn::Sequential layer1, layer2, layer3, layer4;
  nn::Linear fc{512, 10};

  ResNet18() {
    add("conv1", conv1);
    add("bn1", bn1);
    stage("layer1", layer1, 64, 64, 1);
    stage("layer2", layer2, 64, 128, 2);
    stage("layer3", layer3, 128, 256, 2);
    stage("layer4", layer4, 256, 512, 2);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override {                         // [n,3,32,32]
    Tensor h = layer4(layer3(layer2(layer1(relu(bn1(conv1(x)))))));  // [n,512,4,4]
    return fc(flatten(adaptive_avg_pool2d(h, 1), 1));
  }

 private:
  void stage(const char* name, nn::Sequential& s, int64_t in, int64_t out, int64_t stride) {
    s.append<BasicBlock>(in, out, stride).append<BasicBlock>(out, out, 1);
    add(name, s);
  }
};

}  // namespace tandem::models

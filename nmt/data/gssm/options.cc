#include "nmt/data/gssm/options.h"

namespace babelring {

const Choices<GssmMode>& gssm_modes() {
  static const Choices<GssmMode> modes = {{"default", GssmMode::unchanged},
                                          {"slow", GssmMode::slow},
                                          {"dead", GssmMode::dead},
                                          {"context", GssmMode::context}};
  return modes;
}

const Choices<GssmForm>& gssm_forms() {
  static const Choices<GssmForm> forms = {{"fullrank", GssmForm::fullrank}, {"product", GssmForm::product}};
  return forms;
}

void GssmNodeOptions::bind(OptionBinder& b) {
  b.text("name", name, "name of the node; a node X is the observed one unless another says so");
  b.integer("state_dim", state_dim, 2, 1 << 20, "number of states; of the observed node: the vocabulary");
  b.list("parents", parents,
         "names of nodes whose new states this node's state depends on; of the observed node: the previous token");
  b.number_or("alpha", alpha, min_alpha, max_alpha, "auto", of_graph,
              "parameter of the Dirichlet distribution of kernel rows; smaller values give more predictable states; "
              "auto: gssm.alpha_X or gssm.alpha_Z");
  b.choice("mode", mode, gssm_modes(),
           "slow: staying takes the largest probability of each row; dead: state 0 does; context: the kernel is drawn "
           "anew, see gssm.context_per");
  b.choice("kernel", kernel, gssm_forms(),
           "fullrank: a row for each combination of inputs; product: the product of a row for each input");
  b.flag("observed", observed, "its states are the tokens; exactly one node is observed");
}

void GssmOptions::bind(OptionBinder& b) {
  b.items("nodes", nodes, "latent nodes and one observed node, in any order");
  b.number("alpha_X", alpha_x, GssmNodeOptions::min_alpha, GssmNodeOptions::max_alpha,
           "alpha of the observed node if it has none");
  b.number("alpha_Z", alpha_z, GssmNodeOptions::min_alpha, GssmNodeOptions::max_alpha,
           "alpha of the latent nodes that have none");
  b.integer("kernel_seed", kernel_seed, 0, std::int64_t{1} << 62,
            "random seed of the kernels; training.seed draws the sequences");
  b.choice("context_per", context_per, {{"sequence", GssmContext::sequence}, {"update", GssmContext::update}},
           "what the kernels of nodes in context mode are drawn for");
}

}  // namespace babelring

#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace babelring {

namespace {

struct Example {
  std::string_view command, line;
};

constexpr Example examples[] = {
    {"nmt prepare", "nmt prepare --train train.en train.de --valid valid.en valid.de --output data/ids"},
    {"nmt prepare",
     "nmt prepare --train a.en.gz a.de.gz --train b.en b.de --output data/ids --vocabulary old/spm.model"},
    {"nmt prepare",
     "nmt prepare --train memory.tmx web.tsv.zst --languages en,de --test src.sgm ref.sgm --output data/ids"},
    {"nmt prepare", "nmt prepare --train web.en web.de --languages en,de --identify --min-numbers 0.5 --dry-run"},
    {"nmt translate", "nmt translate --checkpoint runs/help <text.en >text.de"},
    {"nmt translate", "nmt translate --checkpoint best --input text.en.gz --output text.de --beam 4 --invalid replace"},
    {"nmt translate", "nmt translate --checkpoint runs/help --sample --top-p 0.9 --n-best 8 --json <text.en"},
    {"nmt translate", "nmt translate --checkpoint runs/help --mbr --beam 5 <text.en"},
    {"nmt augment",
     "nmt augment --checkpoint runs/de-en --mono news.de.gz --tag '<BT>' --sample --top-p 0.9 --output news-bt"},
    {"nmt augment", "nmt augment --checkpoint big --forward --mono train.en --output distilled --shard 1/4"},
    {"nmt evaluate", "nmt evaluate --checkpoint runs/help --data data/ids --set test --report help"},
    {"nmt evaluate", "nmt evaluate --checkpoint best --source test.en --reference test.de --output test.out --json"},
    {"nmt evaluate", "nmt evaluate --watch help --data data/ids --set test --report"},
    {"nmt score", "nmt score --reference test.de --hypothesis test.out"},
    {"nmt score", "nmt score --reference test.de --hypothesis test.out --metrics bleu,chrf,ter --confidence"},
    {"nmt score", "nmt score --reference test.de --hypothesis a.out,b.out --paired bs"},
    {"nmt score", "nmt score --checkpoint runs/help --source test.en --target test.de --tokens"},
    {"nmt score",
     "nmt score --checkpoint runs/help --source web.en.gz --target web.de.gz --keep-below 4 --output kept.en kept.de "
     ">scores"},
    {"nmt shortlist",
     "nmt shortlist --checkpoint runs/help --source train.en --target train.de --output en-de.shortlist"},
    {"nmt shortlist",
     "nmt shortlist --checkpoint best --source web.tsv.zst --columns 1,2 --best 50 --precision int8 --output few"},
    {"nmt export", "nmt export --checkpoint runs/help --to ctranslate2 --quantization int8 --output help-en-de"},
    {"nmt export", "nmt export --checkpoint help-mean --to ctranslate2 --sources dev.en --output help-en-de"},
    {"nmt export", "nmt export --checkpoint runs/help --to argos --from en --into de --output en-de.argosmodel"},
    {"nmt import", "nmt import en-de-ct2 --output models/en-de"},
    {"nmt import", "nmt import en-de-ct2 --vocabulary en-de.spm --output models/en-de"},
    {"nmt import", "nmt import opus-2020-02-26.zip --output models/en-de"},
    {"nmt average", "nmt average --last 5 --output runs/help/mean runs/help"},
    {"nmt average", "nmt average --output mean checkpoints/update-00009000 checkpoints/update-00010000"},
    {"nmt interpolate", "nmt interpolate runs/general runs/in-domain --alpha 0:1:0.1 --output mixed --svg mixed.svg"},
    {"nmt interpolate",
     "nmt interpolate runs/general runs/in-domain --alpha 0:1:0.05 --on "
     "domain=data/in-domain,general=data/general:test "
     "--keep 0.98 --output mixed"},
    {"nmt gssm show", "nmt gssm show --config configs/gssm-small-x.yaml"},
    {"nmt gssm show", "nmt gssm show --config configs/gssm-small-x.yaml --dot gssm.nodes.1.mode=slow"},
    {"nmt gssm difficulty",
     "nmt gssm difficulty --config configs/gssm-small-x.yaml --kernel-seeds 8 --sequences 128 --entropy"},
    {"nmt gssm difficulty",
     "nmt gssm difficulty --config configs/gssm-difficulty.yaml --alphas-x 1e-3:10:20 --alphas-z 1e-3:10:20 "
     "--json-lines grid.jsonl"},
    {"nmt gssm data",
     "nmt gssm data --config configs/gssm-small-x.yaml --output data/small-x --train 10000 --test 256"},
    {"nmt gssm data",
     "nmt gssm data --config configs/gssm-large-z.yaml --output data/large-z --train 30 --test 100 --entropy-sequences "
     "4"},
    {"nmt gssm sample", "nmt gssm sample --checkpoint runs/gssm-small-x -n 10 --length 256"},
    {"nmt gssm sample",
     "nmt gssm sample --checkpoint runs/gssm-small-x --prompt 0,5,7 --temperature 0.8 --top-k 5 --seed 2 --score "
     "--json"},
    {"nmt probe save", "nmt probe save --preset all --output probes"},
    {"nmt probe save",
     "nmt probe save --checkpoint runs/help --output probe.jsonl --updates 3 --layers first10,last10"},
    {"nmt probe print", "nmt probe print probe.jsonl --layers encoder.0.*"},
    {"nmt probe print", "nmt probe print probe.jsonl --fields layer,op,member,min,max,rms"},
    {"nmt probe compare", "nmt probe compare probes other-node/probes"},
    {"nmt probe compare", "nmt probe compare a.jsonl b.jsonl --tolerance 4ulp --by tensor --color always"},
    {"nmt probe repeat", "nmt probe repeat --preset transformer-tiny -n 50 --busy"},
    {"nmt probe repeat", "nmt probe repeat --checkpoint runs/help --updates 3 --threads 8"},
    {"nmt probe weights", "nmt probe weights runs/a runs/b"},
    {"nmt probe weights", "nmt probe weights runs/a runs/b --tolerance 1e-5rel --json"},
    {"nmt probe backends", "nmt probe backends --a cuda --b cpu --preset transformer-base"},
    {"nmt probe backends", "nmt probe backends --a cuda --b cuda --preset transformer-tiny --precision bf16 --json"},
    {"nmt emulate record",
     "nmt emulate record --from-table compute.csv --gpu v100 --model resnet18 --batch 256 --output r18.json"},
    {"nmt emulate record",
     "nmt emulate record --config configs/quickstart.yaml --sizes 0.5,1,2 --updates 20 --output rank.json"},
    {"nmt emulate record",
     "nmt emulate record --compute-ms 70-200 --size 15600 --parameters 60880896 --output published.json"},
    {"nmt emulate link", "nmt emulate link --hosts hostA,hostB"},
    {"nmt emulate link", "nmt emulate link --megabytes 16 --json"},
    {"nmt emulate run",
     "nmt emulate run --record r18.json --hosts 2 --ranks-per-host 2 --inside 98gbit,5us --between 25gbit,20us"},
    {"nmt emulate run",
     "nmt emulate run --record r18.json --hosts 4 --between 218-231MB/s,50us --wire bf16 --trace predicted.json.gz"},
    {"nmt emulate scale", "nmt emulate scale --record r18.json --between 25gbit,20us --ranks 1,2,4,8 --svg scale.svg"},
    {"nmt emulate scale",
     "nmt emulate scale --record r18.json --ranks-per-host 4 --inside inf --between 10gbit,30us --ranks 4,64,1200 "
     "--csv"},
    {"nmt emulate gpus", "nmt emulate gpus --table one_and_two_gpus.csv"},
    {"nmt emulate gpus", "nmt emulate gpus --table one_and_two_gpus.csv --json"},
    {"nmt emulate compare", "nmt emulate compare --record rank.json --measured runs/help"},
    {"nmt emulate compare",
     "nmt emulate compare --record rank.json --between 1gbit,50us --measured runs/a runs/b --output calibrated.json"},
    {"nmt emulate stalls", "nmt emulate stalls --figure 5 --data tables --output figures"},
    {"nmt emulate stalls", "nmt emulate stalls --figure 9 --data tables --output figures --model alexnet"},
    {"nmt report", "nmt report --run-dir runs/help --output help.html"},
    {"nmt report", "nmt report help --format md"},
    {"nmt run submit", "nmt run submit --config configs/quickstart.yaml data.folder=/data/ids --watch"},
    {"nmt run submit", "nmt run submit --config configs/quickstart.yaml --world-size 4 --name big --dry-run"},
    {"nmt run list", "nmt run list --state running"},
    {"nmt run list", "nmt run list --json"},
    {"nmt run show", "nmt run show help"},
    {"nmt run show", "nmt run show r_01K9 --json"},
    {"nmt run compare", "nmt run compare base help"},
    {"nmt run compare", "nmt run compare r_01K9 r_01KB r_01KC --json"},
    {"nmt run watch", "nmt run watch help"},
    {"nmt run watch", "nmt run watch help --server https://trainer:8080"},
    {"nmt run stop", "nmt run stop help --wait"},
    {"nmt run stop", "nmt run stop help --now"},
    {"nmt run resume", "nmt run resume help --watch"},
    {"nmt run resume", "nmt run resume help --world-size 4"},
    {"nmt run why", "nmt run why help"},
    {"nmt run why", "nmt run why r_01KAJ --json"},
    {"nmt run edit", "nmt run edit help --name 'help, 6 layers' --label team=mt --remove-label trial"},
    {"nmt run edit", "nmt run edit help --note 'diverged after the data changed'"},
    {"nmt run archive", "nmt run archive help-1 help-2"},
    {"nmt run archive", "nmt run archive help-1 --undo"},
    {"nmt run delete", "nmt run delete help-1 help-2 --yes"},
    {"nmt run delete", "nmt run delete r_01KAJZ4T5W6X7Y8Z9A0B1C2D3E --undo"},
    {"nmt run pin", "nmt run pin help --best"},
    {"nmt run pin", "nmt run pin help --checkpoint c_01KAJZ4T5W6X7Y8Z9A0B1C2D3E --undo"},
    {"nmt run logs", "nmt run logs help --follow"},
    {"nmt run logs", "nmt run logs help --level error"},
    {"nmt run checkpoints", "nmt run checkpoints help"},
    {"nmt run checkpoints", "nmt run checkpoints help --json"},
    {"nmt run download", "nmt run download help --best --output best"},
    {"nmt run download", "nmt run download help --output newest"},
    {"nmt webhook list", "nmt webhook list"},
    {"nmt webhook list", "nmt webhook list --json"},
    {"nmt webhook add", "nmt webhook add ops --kind slack --url https://hooks.slack.com/services/T0/B0/x"},
    {"nmt webhook add",
     "nmt webhook add phone --kind ntfy --url https://ntfy.sh/my-runs --alerts failed,silent --label team=mt"},
    {"nmt webhook edit", "nmt webhook edit ops --alerts failed,silent,disk_low --cleared true"},
    {"nmt webhook edit", "nmt webhook edit ops --enabled false"},
    {"nmt webhook remove", "nmt webhook remove ops"},
    {"nmt webhook remove", "nmt webhook remove w_01KAJZ4T5W6X7Y8Z9A0B1C2D3E"},
    {"nmt webhook test", "nmt webhook test ops"},
    {"nmt webhook test", "nmt webhook test ops --json"},
    {"nmt run sync", "nmt run sync runs/help"},
    {"nmt run sync", "nmt run sync runs/a runs/b --server http://trainer:8080 --token-file ingest.token"},
    {"nmt run trace", "nmt run trace help"},
    {"nmt run trace", "nmt run trace help --updates 5 --ops false --output help.json.gz"},
    {"nmt run what-if", "nmt run what-if help --hosts 4 --link 25gbit"},
    {"nmt run what-if", "nmt run what-if help --link 10gbit,20us --wire bf16 --json"},
    {"nmt sweep expand", "nmt sweep expand configs/gssm-sweep.yaml --output sweeps/sizes && sweeps/sizes/sweep.sh"},
    {"nmt sweep expand",
     "nmt sweep expand configs/gssm-sweep.yaml --output sweeps/sizes --strict && sbatch sweeps/sizes/sweep.sbatch"},
    {"nmt sweep submit", "nmt sweep submit configs/gssm-sweep.yaml"},
    {"nmt sweep submit", "nmt sweep submit configs/gssm-sweep.yaml --profile batch --max-restarts 1"},
    {"nmt sweep show", "nmt sweep show sizes"},
    {"nmt sweep show", "nmt sweep show sizes --metric loss --at last --csv"},
    {"nmt sweep stop", "nmt sweep stop sizes"},
    {"nmt sweep stop", "nmt sweep stop sizes --now"},
    {"nmt trace timeline", "nmt trace timeline runs/help"},
    {"nmt trace timeline", "nmt trace timeline runs/help/lab/trace-update-00000020.json.gz --json"},
    {"nmt trace light", "nmt trace light runs/help"},
    {"nmt trace light", "nmt trace light runs/help --rank 1 > light.jsonl"},
    {"nmt trace parameters", "nmt trace parameters runs/help --unit head"},
    {"nmt trace parameters", "nmt trace parameters runs/help --unit row --sort changed --coldest --csv"},
    {"nmt trace memory", "nmt trace memory runs/help"},
    {"nmt trace memory",
     "nmt trace memory --config configs/wmt16-transformer-base.yaml --tokens 4096 --html --output memory.html"},
    {"nmt trace graph", "nmt trace graph --config configs/wmt16-transformer-base.yaml --output model.dot"},
    {"nmt trace graph", "nmt trace graph --checkpoint runs/help --depth op --training --format svg --output model.svg"},
    {"nmt doctor", "nmt doctor"},
    {"nmt doctor", "nmt doctor --json"},
    {"nmt completion", "source <(nmt completion bash)"},
    {"nmt completion", "nmt completion fish | source"},
};

void add_examples_below(CLI::App& app, const std::string& path) {
  std::string lines;
  for (const Example& example : examples) {
    if (example.command == path) lines += "\n  " + std::string(example.line);
  }
  if (!lines.empty()) app.footer("Examples:" + lines);
  for (CLI::App* command : app.get_subcommands(nullptr)) add_examples_below(*command, path + ' ' + command->get_name());
}

}  // namespace

void add_examples(CLI::App& app) {
  add_examples_below(app, app.get_name());
}

}  // namespace babelring

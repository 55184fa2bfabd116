#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <fstream>
#include <future>

#include "base/files.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/hosts.h"
#include "cli/doctor/network.h"
#include "nmt/data/manifest.h"
#include "nmt/train/setup/own_libraries.h"
#include "tests/client/tls_server.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

/// Matches a diagnosis with this severity whose text has these words.
auto says(Severity severity, const std::string& words) {
  return AllOf(Field(&Diagnosis::severity, severity), Field(&Diagnosis::text, HasSubstr(words)));
}

/// Trees like the kernel's.
class DoctorTest : public testing::Test {
 protected:
  KernelFiles files() const { return {folder_ / "proc", folder_ / "sys"}; }
  void write(const std::string& path, const std::string& content) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << content;
  }
  /// A machine with eight processors and 16 GiB.
  void write_machine(const std::string& flags) const {
    std::string info;
    for (int i = 0; i < 8; ++i) {
      info += "processor\t: " + std::to_string(i) + "\nmodel name\t: Test CPU\nflags\t\t: fpu " + flags + "\n\n";
    }
    write("proc/cpuinfo", info);
    write("proc/loadavg", "0.50 0.40 0.30 1/200 1234\n");
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\n");
    write("proc/self/cgroup", "0::/job\n");
  }
  void write_interface(const std::string& name, const std::string& type, const std::string& state,
                       const std::string& speed, bool is_virtual = false) const {
    if (!is_virtual) write("sys/class/net/" + name + "/device/uevent", "\n");
    write("sys/class/net/" + name + "/type", type + "\n");
    write("sys/class/net/" + name + "/operstate", state + "\n");
    write("sys/class/net/" + name + "/speed", speed + "\n");
    write("sys/class/net/" + name + "/mtu", "1500\n");
  }
  /// Three cards, a bridge, one end of a veth pair and a loopback; eth1 is slow.
  std::vector<NetworkInterface> interfaces() const {
    write_interface("lo", "772", "unknown", "");
    write_interface("eth0", "1", "up", "25000");
    write_interface("eth1", "1", "up", "100");
    write_interface("eth2", "1", "down", "-1");
    write_interface("docker0", "1", "up", "-1");
    write_interface("veth0", "1", "up", "10000", true);
    write("sys/class/net/docker0/bridge/bridge_id", "1\n");
    write("sys/class/net/bonding_masters", "\n");
    return read_interfaces(
        files(),
        {{"lo", {"127.0.0.1", "::1"}}, {"eth0", {"10.0.0.1"}}, {"eth1", {"192.168.1.1"}}, {"docker0", {"172.17.0.1"}}});
  }

  TemporaryFolder folder_;
};

Result<HostRoute> fake_route(const std::string& host) {
  if (host == "by-eth0") return HostRoute{"10.0.0.2", "10.0.0.1"};
  if (host == "by-eth1") return HostRoute{"192.168.1.2", "192.168.1.1"};
  if (host == "ourselves") return HostRoute{"10.0.0.1", "10.0.0.1"};
  if (host == "debian") return HostRoute{"127.0.1.1", "127.0.0.1"};
  if (host == "strange") return HostRoute{"10.9.9.9", "10.9.9.1"};
  return Error{"unknown host name: Name or service not known"};
}

TEST_F(DoctorTest, ProcessorFeaturesDetermineTheAdvice) {
  write_machine("avx2 avx512_bf16 amx_tile amx_bf16");
  EXPECT_THAT(machine_findings(files(), "cpu (amx kernels, oneDNN)", 8)[0],
              says(Severity::ok, "Test CPU: cpu (amx kernels, oneDNN)"));
  const Diagnosis withheld = machine_findings(files(), "cpu (avx512_bf16 kernels, oneDNN)", 8)[0];
  EXPECT_THAT(withheld, says(Severity::warn, "Test CPU"));
  EXPECT_THAT(withheld.advice, HasSubstr("BABELRING_CPU_ISA"));
  write_machine("avx2 avx512_bf16");
  EXPECT_EQ(machine_findings(files(), "cpu (avx512_bf16 kernels, oneDNN)", 8)[0].severity, Severity::ok);
  write_machine("avx2");
  EXPECT_THAT(machine_findings(files(), "cpu (avx512_bf16 kernels, oneDNN)", 8)[0].advice,
              HasSubstr("training.precision=f32"));
}

TEST_F(DoctorTest, ControlGroupLimitsAreRespected) {
  write_machine("avx512_bf16");
  EXPECT_THAT(machine_findings(files(), "cpu", 8),
              ElementsAre(testing::_, says(Severity::ok, "may use 8 of 8 processors"),
                          says(Severity::ok, "16.0 GiB usable by this process, 12.0 GiB available")));
  write("proc/self/cgroup", "0::/job/task\n");
  write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/job/memory.max", "2147483648\n");
  write("sys/fs/cgroup/job/memory.current", "0\n");
  write("sys/fs/cgroup/job/task/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/job/task/memory.max", "max\n");
  const Diagnoses limited = machine_findings(files(), "cpu", 8);
  EXPECT_THAT(limited[1], says(Severity::warn, "limited to the time of 1.5"));
  EXPECT_THAT(limited[1].advice, HasSubstr("1 thread in total"));
  EXPECT_THAT(limited[2], says(Severity::warn, "2.0 GiB usable by this process, 2.0 GiB available"));
  for (const char* group : {"job", "job/task"}) write(fmt::format("sys/fs/cgroup/{}/cpu.max", group), "max 100000\n");
  write("proc/loadavg", "7.90 4 4 1/2 3\n");
  EXPECT_THAT(machine_findings(files(), "cpu", 8)[1], says(Severity::warn, "load 7.9"));
}

TEST_F(DoctorTest, MissingInformationIsNotAnError) {
  const Diagnoses findings = machine_findings({folder_ / "absent", folder_ / "absent"}, "cpu", 2);
  EXPECT_THAT(findings[1], says(Severity::ok, "may use 2 of 2"));
  EXPECT_THAT(findings[2], says(Severity::ok, "the kernel does not report it"));
}

TEST_F(DoctorTest, InterfacesAreDescribed) {
  const Diagnoses findings = network_findings(interfaces(), {}, fake_route, {});
  EXPECT_THAT(findings, ElementsAre(says(Severity::ok, "docker0: bridge, up, mtu 1500, 172.17.0.1"),
                                    says(Severity::ok, "eth0: ethernet, up, 25000 Mbit/s, mtu 1500, 10.0.0.1"),
                                    says(Severity::warn, "eth1: ethernet, up, 100 Mbit/s"),
                                    says(Severity::ok, "eth2: ethernet, down, mtu 1500, no address"),
                                    says(Severity::ok, "lo: loopback, unknown, mtu 1500, 127.0.0.1 ::1"),
                                    says(Severity::ok, "veth0: virtual, up, mtu 1500, no address"),
                                    says(Severity::ok, "several interfaces may lead to other hosts: eth0, eth1")));
  EXPECT_THAT(findings.back().advice, HasSubstr("--hosts"));
}

TEST_F(DoctorTest, InterfaceToTheHostsIsRecommended) {
  const Diagnoses findings = network_findings(interfaces(), {"by-eth0", "ourselves"}, fake_route, {});
  EXPECT_THAT(findings, Contains(says(Severity::ok, "by-eth0 is 10.0.0.2: by eth0, from 10.0.0.1")));
  EXPECT_THAT(findings.back(), says(Severity::ok, "NCCL_SOCKET_IFNAME=eth0 and btl_tcp_if_include=eth0"));
  EXPECT_EQ(findings.back().advice,
            "mpirun -x NCCL_SOCKET_IFNAME=eth0 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 …");
  EXPECT_THAT(network_findings(interfaces(), {"ourselves"}, fake_route, {}).back(),
              says(Severity::ok, "no other host"));
}

TEST_F(DoctorTest, HostsThatCannotFormARingAreReported) {
  EXPECT_THAT(network_findings(interfaces(), {"by-eth0", "by-eth1"}, fake_route, {}).back(),
              says(Severity::warn, "reached by different interfaces: eth0, eth1"));
  const Diagnoses findings = network_findings(interfaces(), {"debian", "nobody", "strange"}, fake_route, {});
  EXPECT_THAT(findings, Contains(AllOf(says(Severity::ok, "debian is 127.0.1.1: by lo"),
                                       Field(&Diagnosis::advice, HasSubstr("harmless for ranks")))));
  EXPECT_THAT(findings, Contains(says(Severity::fail, "nobody: unknown host name")));
  EXPECT_THAT(findings, Contains(says(Severity::warn, "by no interface with 10.9.9.1")));
}

TEST_F(DoctorTest, ChosenInterfaceMustExist) {
  const auto chosen = [this](const std::string& value) {
    return network_findings(interfaces(), {}, fake_route, value).back();
  };
  EXPECT_THAT(chosen("eth"), says(Severity::ok, "selects eth0, eth1"));
  EXPECT_THAT(chosen("=eth1"), says(Severity::ok, "selects eth1"));
  EXPECT_THAT(chosen("^lo,docker"), says(Severity::ok, "selects eth0, eth1"));
  EXPECT_THAT(chosen("ib0"), says(Severity::fail, "NCCL_SOCKET_IFNAME=ib0 selects no interface"));
  EXPECT_THAT(chosen("=eth"), says(Severity::fail, "selects no interface"));
  EXPECT_THAT(chosen("eth2"), says(Severity::fail, "selects no interface")) << "it is down";
}

TEST_F(DoctorTest, InfinibandAdaptersAreDescribed) {
  EXPECT_THAT(infiniband_findings(files()), ElementsAre());
  for (const auto& [adapter, state] : {std::pair("mlx5_0", "4: ACTIVE"), std::pair("mlx5_1", "1: DOWN")}) {
    const std::string port = std::string("sys/class/infiniband/") + adapter + "/ports/1/";
    write(port + "state", std::string(state) + "\n");
    write(port + "rate", "400 Gb/sec (4X NDR)\n");
    write(port + "link_layer", "InfiniBand\n");
  }
  EXPECT_THAT(infiniband_findings(files()),
              ElementsAre(says(Severity::ok, "mlx5_0 port 1: InfiniBand, 4: ACTIVE, 400 Gb/sec (4X NDR)"),
                          says(Severity::warn, "mlx5_1 port 1: InfiniBand, 1: DOWN")));
}

TEST_F(DoctorTest, RouteToThisMachineIsTheLoopback) {
  const Result<HostRoute> route = route_to("127.0.0.1");
  ASSERT_TRUE(route) << route.error();
  EXPECT_EQ(route->source, "127.0.0.1");
  EXPECT_EQ(route->address, "127.0.0.1");
  EXPECT_THAT(interface_addresses().at("lo"), Contains("127.0.0.1"));
  EXPECT_FALSE(route_to("no.such.host.invalid"));
}

TEST_F(DoctorTest, UnusableGpusAreAnError) {
  const GpuReport none{.devices = Error{"there is no NVIDIA driver"}, .nccl = Error{"no libnccl.so.2"}};
  EXPECT_EQ(worst_of(gpu_findings(none)), Severity::ok) << "a machine without GPUs is well";
  EXPECT_THAT(gpu_findings(none)[0], says(Severity::ok, "no GPU is used: there is no NVIDIA driver"));
  GpuReport report = none;
  report.cards = 2;
  EXPECT_THAT(gpu_findings(report)[0], says(Severity::fail, "2 NVIDIA GPUs in the machine, none usable"));
  EXPECT_THAT(gpu_findings(report)[0].advice, HasSubstr("nvidia-smi"));
  report.devices = std::vector<std::string>{"cuda (device 0: NVIDIA H200)"};
  report.driver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module";
  EXPECT_THAT(gpu_findings(report), ElementsAre(says(Severity::ok, "NVRM"), says(Severity::ok, "NVIDIA H200"),
                                                says(Severity::warn, "no NCCL: no libnccl.so.2")));
}

TEST_F(DoctorTest, CardsAreCountedOnTheBus) {
  for (const auto& [device, vendor, type] :
       {std::tuple("0000:17:00.0", "0x10de", "0x030200"), std::tuple("0000:17:00.1", "0x10de", "0x040300"),
        std::tuple("0000:00:02.0", "0x8086", "0x030000")}) {
    write(std::string("sys/bus/pci/devices/") + device + "/vendor", std::string(vendor) + "\n");
    write(std::string("sys/bus/pci/devices/") + device + "/class", std::string(type) + "\n");
  }
  write("proc/driver/nvidia/version", "NVRM version: 580\nGCC version: 12\n");
  const GpuReport report = report_gpus(files());
  EXPECT_EQ(report.cards, 1);
  EXPECT_EQ(report.driver, "NVRM version: 580");
  EXPECT_TRUE(report.nccl ? !report.nccl->empty() : !report.nccl.error().empty());
}

TEST_F(DoctorTest, FolderForRunsIsChecked) {
  const Diagnoses findings = storage_findings(folder_ / "runs/deep");
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr(folder_.path().string() + ": "), HasSubstr("GB free")));
  EXPECT_THAT(findings[1].text, HasSubstr("a small fsynced write takes"));
  EXPECT_THAT(findings[2], says(Severity::ok, "file locks work"));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_THAT(storage_findings("/proc/self/runs"), Contains(Field(&Diagnosis::severity, Severity::fail)));
}

TEST_F(DoctorTest, DataIsComparedWithItsDigests) {
  std::ofstream(folder_ / "train.ids") << "ids";
  std::ofstream(folder_ / "spm.model") << "pieces";
  Manifest manifest{.program = "test", .vocabulary = describe_file(folder_.path(), "spm.model")};
  manifest.sets = {{.name = "train", .target_ids = describe_file(folder_.path(), "train.ids")}};
  save_manifest(folder_.path(), manifest);
  EXPECT_THAT(data_findings(folder_.path()),
              ElementsAre(says(Severity::ok, ": 2 files, 0.0 MB, have the digests of its manifest")));
  std::ofstream(folder_ / "train.ids") << "idz";
  std::ofstream(folder_ / "spm.model") << "piece";
  EXPECT_THAT(data_findings(folder_.path()),
              ElementsAre(says(Severity::fail, "spm.model: truncated or damaged, 5 bytes, expected 6"),
                          says(Severity::fail, "train.ids: damaged, its SHA-256 is ")));
  EXPECT_THAT(data_findings(folder_ / "none"), ElementsAre(says(Severity::fail, "no manifest.json there")));
}

TEST_F(DoctorTest, ClocksAreCompared) {
  constexpr std::int64_t now = 784111777'000;  // Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(clock_ahead_s("Sun, 06 Nov 1994 08:49:37 GMT", now).value(), 0);
  EXPECT_EQ(clock_ahead_s("Sun, 06 Nov 1994 08:49:37 GMT", now + 900).value(), 0);
  EXPECT_EQ(clock_ahead_s("Sun, 06 Nov 1994 08:50:37 GMT", now).value(), 60);
  EXPECT_EQ(clock_ahead_s("Sun, 06 Nov 1994 08:48:36 GMT", now).value(), -60);
  EXPECT_EQ(clock_ahead_s("yesterday", now).error(), "invalid Date header of the server: \"yesterday\"");
}

TEST_F(DoctorTest, FindingsReadAsTextAndJson) {
  const Diagnoses findings{{.area = "memory", .text = "16 GiB"},
                           {.area = "gpu", .severity = Severity::warn, .text = "no NCCL", .advice = "install it"}};
  EXPECT_EQ(text_of(findings), "ok   memory    16 GiB\nwarn gpu       no NCCL\n               -> install it\n");
  EXPECT_EQ(to_text(json_of(findings)),
            R"({"verdict":"warn","findings":[{"area":"memory","verdict":"ok","text":"16 GiB","advice":""},)"
            R"({"area":"gpu","verdict":"warn","text":"no NCCL","advice":"install it"}]})");
}

TEST(DoctorLibraries, AreNamedWithTheirVersions) {
  EXPECT_THAT(libraries_finding({.onednn = "2.6.3", .open_mpi = "4.1.4", .sentencepiece = "0.1.97", .glibc = "2.36"}),
              says(Severity::ok, "oneDNN 2.6.3, Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36"));
  const HostReport report = report_host(KernelFiles());
  EXPECT_EQ(report.libraries, own_libraries());
  EXPECT_EQ(library_versions_from_json(json_of(report).at("libraries")), own_libraries());
}

TEST(DoctorHosts, DifferencesAreNamedWithBothValues) {
  const HostReport own{
      .nmt = "1 build a",
      .worker = "1 build b",
      .kernels = "oneDNN avx512_core",
      .processor = "Xeon",
      .identity = "1",
      .addresses = {"10.0.0.1", "192.168.1.1"},
      .libraries = {.onednn = "2.6.3", .open_mpi = "4.1.4", .sentencepiece = "0.1.97", .glibc = "2.36"},
      .exchange = {}};
  HostReport other = own;
  EXPECT_THAT(host_findings(own, {{"hostB", other}}),
              ElementsAre(says(Severity::ok, "hostB: same programs, kernels and processor")));
  other.worker = "";
  other.kernels = "oneDNN avx2";
  other.processor = "EPYC";
  EXPECT_THAT(host_findings(own, {{"hostB", other}}),
              ElementsAre(says(Severity::fail, "hostB: worker none, here 1 build b"),
                          says(Severity::fail, "hostB: kernels oneDNN avx2, here oneDNN avx512_core"),
                          says(Severity::warn, "hostB: processor EPYC, here Xeon")));
  other = own;
  other.libraries = {.onednn = "3.7.2", .open_mpi = "5.0.7", .sentencepiece = "0.2.0", .glibc = "2.41"};
  EXPECT_THAT(host_findings(own, {{"hostB", other}}),
              ElementsAre(says(Severity::fail, "hostB: Open MPI 5.0.7, here 4.1.4"),
                          says(Severity::fail, "hostB: oneDNN 3.7.2, here 2.6.3")));
  other = own;
  other.identity = "2";
  other.addresses = {"10.0.0.2", "192.168.1.1"};
  other.exchange = "cannot connect to 10.0.0.1 port 40000: no answer within 10 s";
  EXPECT_THAT(host_findings(own, {{"hostB", other}}),
              ElementsAre(says(Severity::warn, "hostB: it has the address 192.168.1.1 too"),
                          says(Severity::fail,
                               "hostB: 64 KiB could not be exchanged: cannot connect to 10.0.0.1 port "
                               "40000: no answer within 10 s")));
  EXPECT_THAT(host_findings(own, {{"hostB", Error{"Connection refused"}}}),
              ElementsAre(says(Severity::warn, "hostB could not be compared: Connection refused")));
  EXPECT_TRUE(host_findings(own, {}).empty());
}

TEST(DoctorHosts, ExchangeDataInBothDirections) {
  const Listener listener = listen_at("127.0.0.1").value();
  auto caller = std::async(std::launch::async, [&] { return exchange_as_caller("127.0.0.1", listener.port); });
  exchange_as_listener(listener).value();
  caller.get().value();
}

TEST(DoctorHosts, NameAConnectionThatIsRefusedOrClosed) {
  const std::string port = listen_at("127.0.0.1").value().port;  // nobody listens there any more
  EXPECT_EQ(exchange_as_caller("127.0.0.1", port).error(),
            "cannot connect to 127.0.0.1 port " + port + ": Connection refused");
  const Listener closes = listen_at("127.0.0.1").value();
  auto caller = std::async(std::launch::async, [&] { return exchange_as_caller("127.0.0.1", closes.port); });
  const FileDescriptor incoming(::accept(closes.socket.get(), nullptr, nullptr));
  ::shutdown(incoming.get(), SHUT_WR);
  EXPECT_EQ(caller.get().error(), "the other host closed the connection");
  EXPECT_EQ(listen_at("not an address").error(), "'not an address' is no address");
}

TEST_F(DoctorTest, ARefusedCertificateGetsAdviceByItsCause) {
  const auto advice = [this](const CertificateOptions& options, bool trusted) {
    const Certificate certificate(options);
    const TlsServer server(certificate);
    const fs::path file = folder_ / "ca.pem";
    write_file_atomically(file, certificate.certificate());
    const Diagnoses findings = server_findings({.address = server.address(), .ca_file = trusted ? file : ""});
    EXPECT_THAT(findings[0], says(Severity::fail, "certificate verify failed"));
    return findings[0].advice;
  };
  EXPECT_THAT(advice({}, false), HasSubstr("copy the server's certificate here, and name it by --ca-file"));
  EXPECT_THAT(advice({.by_authority = true}, false), HasSubstr("trust its authority"));
  EXPECT_THAT(advice({.valid_from = -3, .valid_to = -2}, true), HasSubstr("renew the server's certificate"));
  EXPECT_THAT(advice({.valid_from = 2, .valid_to = 3}, true), HasSubstr("correct the clock of this machine"));
  EXPECT_THAT(advice({.names = "DNS:elsewhere"}, true), HasSubstr("have one issued for localhost"));
}

TEST_F(DoctorTest, AnAddressWithTheWrongSchemeIsCorrected) {
  const TlsServer server{Certificate({})};
  const Diagnosis finding = server_findings({.address = server.address("http")})[0];
  EXPECT_EQ(finding.severity, Severity::fail);
  EXPECT_EQ(finding.advice, "the server speaks TLS there: use " + server.address());
}

}  // namespace
}  // namespace babelring

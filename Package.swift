// swift-tools-version: 6.3
import PackageDescription

// The layers, top to bottom. A target may import only what stands in its own `dependencies`: the build runs with
// `--explicit-target-dependency-import-check error`, and Tests/TidyTests holds the same table against the sources.

/// What every Swift target is compiled with.
let common: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableExperimentalFeature("Lifetimes"),
]

/// Layers that own C handles: each use of memory that the compiler cannot check is marked `unsafe`.
let strict: [SwiftSetting] = common + [.strictMemorySafety()]

func layer(
  _ name: String, _ dependencies: [Target.Dependency] = [], _ settings: [SwiftSetting] = strict,
  exclude: [String] = []
) -> Target {
  .target(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: common)
}

let package = Package(
  name: "apus",
  products: [
    .executable(name: "apus", targets: ["apus"]),
    .executable(name: "apus-agent", targets: ["apus-agent"]),
    .executable(name: "apus-bench", targets: ["apus-bench"]),
    .library(name: "ApusModel", targets: ["ApusModel"]),
    .library(name: "ApusClient", targets: ["ApusClient"]),
    .library(name: "ApusDevice", targets: ["ApusDevice"]),
  ],
  targets: [
    // System libraries and the C macros that Swift cannot import.
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CUV", pkgConfig: "libuv", providers: [.apt(["libuv1-dev"])]),
    .systemLibrary(name: "CRocksDB", pkgConfig: "rocksdb", providers: [.apt(["librocksdb-dev"])]),
    .systemLibrary(
      name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
    // Starting commands with the rights of a user, and what the kernel says of networks and clocks.
    .target(name: "CAgent"),
    // Loads libcurl when it is needed, so that no product links it.
    .target(name: "CCurl"),
    // Likewise libmicrohttpd, which brings GnuTLS.
    .target(name: "CMicroHTTPD"),
    // Likewise libpq, for a store that is a database.
    .target(name: "CPostgres"),
    .target(name: "CShims", dependencies: ["COpenSSL"]),
    // What the store's engine offers only in C++: a logger of ours, and leaving out a table that is lost.
    .target(name: "CEngineLog"),
    // Files that the programs contain.
    .target(name: "CEmbedded"),

    // L0: vocabulary and bytes.
    layer("ApusModel"),
    layer("ApusRandom"),
    layer("ApusEmbedded", ["CEmbedded"]),
    layer("ApusWire", ["ApusModel"]),
    // L1: decisions.
    layer("ApusCore", ["ApusModel", "ApusWire"]),
    layer("ApusLease", ["ApusModel"]),
    layer("ApusWalks", ["ApusModel", "ApusRandom", "ApusCore", "ApusLease"]),
    // L2: bytes in, bytes and events out; all but HTTP/2 over C.
    layer("ApusTLS", ["ApusModel", "COpenSSL", "CShims"]),
    layer("ApusHTTP2", ["ApusModel"]),
    layer("ApusTrust", ["ApusModel", "ApusWire", "COpenSSL", "CShims"]),
    // L3: effects.
    layer("ApusThread"),
    layer("ApusLoop", ["CUV"]),
    layer(
      "ApusStore",
      [
        "ApusModel", "ApusWire", "ApusLease", "ApusThread", "ApusEmbedded", "CRocksDB",
        "CEngineLog",
        "CPostgres",
      ], exclude: ["Postgres/postgresql.sql"]),
    layer("ApusWeb", ["ApusThread", "CMicroHTTPD", "CCurl"]),
    layer("ApusConsole", ["ApusEmbedded"], exclude: ["Assets"]),
    layer("ApusLog", ["ApusModel", "ApusLoop"]),
    // L4: the control plane, which commands use without a service.
    layer(
      "ApusDirectory",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusTrust", "ApusLoop", "ApusLog",
        "ApusStore",
      ]),
    layer(
      "ApusCluster",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusTrust", "ApusLog", "ApusStore", "ApusThread",
        "ApusDirectory",
      ]),
    layer(
      "ApusEnrolment",
      ["ApusModel", "ApusWire", "ApusCore", "ApusTrust", "ApusLoop", "ApusLog", "ApusDirectory"]),
    layer(
      "ApusWebhooks",
      [
        "ApusModel", "ApusWire", "ApusTrust", "ApusLoop", "ApusLog", "ApusWeb", "ApusThread",
        "ApusDirectory",
      ]),
    layer(
      "ApusJobs",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusLoop", "ApusLog", "ApusStore", "ApusThread",
        "ApusDirectory",
      ]),
    layer(
      "ApusAdmin",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusTrust", "ApusLoop", "ApusLog",
        "ApusStore", "ApusWeb", "ApusThread", "ApusDirectory", "ApusEnrolment", "ApusEmbedded",
        "ApusWebhooks", "ApusJobs",
      ], exclude: ["openapi.json"]),
    // L5: drivers.
    layer(
      "ApusServer",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusHTTP2", "ApusTrust", "ApusLoop",
        "ApusLog", "ApusStore", "ApusThread", "ApusDirectory", "ApusEnrolment", "ApusAdmin",
        "ApusWebhooks", "ApusJobs",
      ]),
    layer(
      "ApusClient",
      ["ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusHTTP2", "ApusTrust", "ApusLoop"]),
    // What is for other services' devices, from the data plane to the client.
    layer(
      "ApusRelay",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusTrust", "ApusLoop", "ApusStore", "ApusLog",
        "ApusDirectory", "ApusServer", "ApusClient",
      ]),
    layer(
      "ApusDevice",
      ["ApusModel", "ApusRandom", "ApusWire", "ApusCore", "ApusTLS", "ApusTrust", "ApusLoop"]),
    // The daemon of a Linux machine. It must not depend on what only a service needs.
    layer(
      "ApusAgent",
      [
        "ApusModel", "ApusWire", "ApusTLS", "ApusTrust", "ApusLoop", "ApusLog", "ApusDevice",
        "CAgent", "CSystemd",
      ]),
    layer(
      "ApusTesting",
      [
        "ApusModel", "ApusRandom", "ApusWire", "ApusCore", "ApusTLS", "ApusHTTP2", "ApusTrust",
        "ApusLoop", "ApusStore", "ApusLog", "ApusDirectory", "ApusEnrolment", "ApusAdmin",
        "ApusServer", "ApusClient", "ApusRelay", "ApusDevice", "ApusThread", "ApusWeb",
      ]),
    // The development service, of all of these.
    layer(
      "ApusDev",
      [
        "ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusTrust", "ApusLoop", "ApusWeb",
        "ApusLog", "ApusDirectory", "ApusEnrolment", "ApusAdmin", "ApusServer", "ApusClient",
        "ApusDevice", "ApusConsole", "ApusRandom", "ApusThread", "ApusEmbedded",
      ], exclude: ["API/openapi.json"]),
    // L6: thin executables, and what of them is pure.
    layer("ApusCommand", ["ApusModel", "ApusWire"]),
    .executableTarget(
      name: "apus",
      dependencies: [
        "ApusCommand", "ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusTrust", "ApusLoop",
        "ApusWeb", "ApusLog", "ApusDirectory", "ApusEnrolment", "ApusAdmin", "ApusServer",
        "ApusClient", "ApusRelay", "ApusDevice", "ApusDev", "ApusWebhooks", "ApusCluster",
      ],
      swiftSettings: strict),
    .executableTarget(
      name: "apus-agent",
      dependencies: ["ApusAgent", "ApusCommand", "ApusWire", "ApusLoop", "ApusLog"],
      swiftSettings: strict),
    .executableTarget(
      name: "apus-bench",
      dependencies: [
        "ApusCommand", "ApusModel", "ApusWire", "ApusCore", "ApusLoop", "ApusStore", "ApusTLS",
        "ApusTrust", "ApusClient", "ApusDevice", "ApusRandom",
      ],
      swiftSettings: strict),
    .executableTarget(
      name: "apus-sim", dependencies: ["ApusTesting", "ApusWalks"], swiftSettings: strict),

    // Faults of the disk, in a test's own process. A program that this is linked into has it between itself and the C
    // library, so that nothing but tests may depend on it.
    .target(name: "CDiskFaults", path: "Tests/CDiskFaults"),
    .target(
      name: "DiskFaults", dependencies: ["CDiskFaults"], path: "Tests/DiskFaults",
      swiftSettings: common),

    // A database server of the tests' own.
    .target(name: "PostgresServer", path: "Tests/PostgresServer", swiftSettings: common),

    // The reference implementation of HTTP/2, for tests.
    .systemLibrary(
      name: "CNGHTTP2", path: "Tests/CNGHTTP2", pkgConfig: "libnghttp2",
      providers: [.apt(["libnghttp2-dev"])]),

    // Tests in Python, which run among those in Swift.
    .target(name: "UnittestRunner", path: "Tests/UnittestRunner", swiftSettings: common),

    // The vectors of the courier protocol, for the tests of both ends.
    .target(
      name: "CourierVectors", dependencies: ["ApusWire"], path: "Tests/CourierVectors",
      swiftSettings: common),

    tests("ApusModelTests", ["ApusModel"]),
    tests("ApusWireTests", ["ApusWire", "ApusModel", "ApusRandom", "CourierVectors"]),
    tests("ApusCoreTests", ["ApusCore", "ApusModel", "ApusRandom", "ApusWalks", "ApusWire"]),
    tests("ApusLeaseTests", ["ApusLease", "ApusWalks"]),
    tests("ApusTLSTests", ["ApusTLS", "ApusModel", "ApusRandom", "COpenSSL", "CShims"]),
    tests(
      "ApusHTTP2Tests", ["ApusHTTP2", "ApusModel", "ApusRandom", "ApusTesting", "CNGHTTP2"]),
    tests("ApusTrustTests", ["ApusTrust", "ApusModel", "ApusRandom", "ApusWire", "COpenSSL"]),
    tests("ApusLoopTests", ["ApusLoop", "CUV"]),
    tests("ApusWebTests", ["ApusWeb", "ApusThread"]),
    tests(
      "ApusServerTests",
      [
        "ApusLog", "ApusDirectory", "ApusEnrolment", "ApusAdmin", "ApusServer", "ApusTesting",
        "ApusModel", "ApusWire", "ApusLoop", "ApusTLS", "ApusHTTP2", "ApusEmbedded",
        "ApusTrust", "ApusCore", "ApusStore", "ApusWeb", "ApusWebhooks", "ApusDevice",
        "CourierVectors", "DiskFaults", "ApusRandom", "ApusJobs",
      ]),
    tests(
      "ApusWebhooksTests",
      [
        "ApusWebhooks", "ApusDirectory", "ApusLog", "ApusLoop", "ApusTesting", "ApusTrust",
        "ApusWire", "DiskFaults",
      ]),
    tests(
      "ApusJobsTests",
      ["ApusJobs", "ApusDirectory", "ApusLog", "ApusModel", "ApusStore", "ApusThread"]),
    tests(
      "ApusDirectoryTests",
      [
        "ApusDirectory", "ApusRandom", "ApusEnrolment", "ApusServer", "ApusTesting", "ApusModel",
        "ApusCore", "ApusLoop", "ApusStore", "ApusTrust", "ApusWire", "DiskFaults",
      ]),
    tests(
      "ApusClusterTests",
      [
        "ApusCluster", "ApusDirectory", "ApusEnrolment", "ApusJobs", "ApusModel", "ApusCore",
        "ApusStore", "ApusLog", "ApusTesting", "ApusTrust", "ApusWebhooks", "ApusWire",
        "PostgresServer",
      ]),
    tests(
      "ApusStoreTests",
      ["ApusStore", "ApusModel", "ApusRandom", "ApusWire", "DiskFaults", "PostgresServer"]),
    .testTarget(
      name: "BenchmarkTests", dependencies: ["UnittestRunner"],
      exclude: ["tools_tests.py", "runner_tests.py", "account_tests.py"], swiftSettings: common),
    .testTarget(
      name: "ConsoleTests", dependencies: ["ApusConsole", "apus", "UnittestRunner"],
      exclude: ["Browser"], swiftSettings: common),
    tests("ApusCommandTests", ["ApusCommand", "ApusModel", "ApusWire"]),
    tests(
      "ApusDeviceTests",
      [
        "ApusDevice", "ApusModel", "ApusWire", "ApusTLS", "ApusTrust", "ApusLoop", "ApusLog",
        "ApusDirectory", "ApusEnrolment", "ApusAdmin", "ApusServer", "CourierVectors",
        "ApusRandom",
      ]),
    .testTarget(
      name: "InteropTests", dependencies: ["apus", "apus-bench", "PostgresServer"],
      exclude: [
        "Senders", "haproxy.py", "serve.py", "requirements.txt", "requirements-python2.txt",
      ], swiftSettings: common),
    tests(
      "ApusClientTests",
      [
        "ApusClient", "ApusDevice", "ApusLog", "ApusDirectory", "ApusEnrolment", "ApusAdmin",
        "ApusServer", "ApusModel", "ApusWire", "ApusCore", "ApusHTTP2",
        "ApusTrust", "ApusLoop", "ApusTLS", "ApusTesting", "ApusRandom",
      ]),
    tests(
      "ApusRelayTests",
      [
        "ApusRelay", "ApusServer", "ApusDirectory", "ApusLog", "ApusLoop", "ApusModel",
        "ApusTrust", "ApusWire", "ApusCore", "ApusTLS", "ApusThread", "ApusStore", "ApusTesting",
        "ApusWebhooks",
      ]),
    tests(
      "ApusDevTests",
      [
        "ApusDev", "ApusClient", "ApusModel", "ApusWire", "ApusLog", "ApusDirectory",
        "ApusEnrolment", "ApusAdmin", "ApusServer", "ApusWeb", "ApusTrust",
        "ApusTLS", "ApusLoop", "ApusTesting", "ApusEmbedded",
      ]),
    tests("SimulationTests", ["ApusTesting"]),
    .testTarget(
      name: "ApusBenchTests", dependencies: ["apus-bench", "ApusCommand", "ApusModel"],
      swiftSettings: common),
    .testTarget(
      name: "ApusAgentTests",
      dependencies: ["ApusAgent", "ApusLoop", "ApusWire", "apus", "apus-agent", "UnittestRunner"],
      swiftSettings: common),
    tests("TidyTests", ["ApusModel"]),
  ],
  cxxLanguageStandard: .cxx17
)

// What needs neither I/O nor a C library, for `make check`.
if Context.environment["APUS_PURE"] != nil {
  let pure: Set = [
    "ApusModel", "ApusRandom", "ApusWire", "ApusCore", "ApusLease", "ApusWalks", "ApusCommand",
    "CourierVectors",
    "ApusModelTests", "ApusWireTests", "ApusCoreTests", "ApusLeaseTests", "ApusCommandTests",
    "TidyTests",
  ]
  package.targets.removeAll { !pure.contains($0.name) }
  package.products = []
}

import ApusClient
import ApusCommand
import ApusLoop
import ApusTrust
import ApusWire

/// The setting of a run: the program and its data, the listeners, and the providers' credentials.
struct CrashSetting {
  let data: String
  let topic: String
  let topicHash: TopicHash
  let courier: SocketAddress
  let silent: BinaryEndpoint
  let confirming: BinaryEndpoint
  let pushing: ClientConfiguration
  /// The file with the service's output of all lives.
  let log: String
  private let program: String
  private let ports: [UInt16]

  init(_ invocation: Invocation) throws(CommandFailure) {
    program = try invocation.require(BenchOptions.apus)
    data = invocation.value(BenchOptions.data)
    topic = invocation.value(BenchOptions.topic)
    let name = Array(topic.utf8)
    topicHash = TopicHash(of: name.span)
    log = "\(data)/crash.log"
    ports = try LocalPort.free(4)
    let addresses = ports.map { SocketAddress.loopbackIPv4(port: $0) }
    courier = addresses[0]
    silent = try BinaryEndpoint(invocation, address: addresses[1])
    confirming = try BinaryEndpoint(invocation, address: addresses[2])
    pushing = ClientConfiguration(
      endpoint: Endpoint(host: "localhost", port: ports[3]),
      trustRoots: .pem(Array(try readText(try invocation.require(BenchOptions.authority)).utf8)),
      credential: .certificate(
        certificatePEM: Array(
          try readText(try invocation.require(BenchOptions.certificate)).utf8),
        keyPEM: Array(try readText(try invocation.require(BenchOptions.certificateKey)).utf8)))
  }

  func start(workers: Int) throws(CommandFailure) -> ServiceProcess {
    let listeners = [
      "--courier-listen=127.0.0.1:\(ports[0])",
      "--gateway-listen=127.0.0.1:\(ports[1]),127.0.0.1:\(ports[2])+confirm",
      "--http2-listen=127.0.0.1:\(ports[3])", "--feedback-listen=off",
    ]
    let others = ["http2", "courier", "gateway", "feedback"].map {
      "--\($0)-development-listen=off"
    }
    return try ServiceProcess(
      program,
      ["serve", "--data", data, "--log-level", "warning", "--workers", "\(workers)"] + listeners
        + others, log: log)
  }

  /// Whether all listeners accept connections.
  var isOpen: Bool { ports.allSatisfy(LocalPort.accepts) }
}

import ApusCore
import ApusDirectory
import ApusLoop
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

/// Nodes of the cluster that a service behind an edge belongs to, whose bytes a test writes.
struct NodesByHand {
  private let address: SocketAddress
  private let data: DataDirectory

  init(_ service: TestService) throws {
    address = try #require(service.linkAddress)
    data = DataDirectory(path: service.directory.data.path)
  }

  private func linkIdentity(_ name: String) throws -> LinkIdentity {
    try data.linkIdentity(of: #require(NodeName(name)), nowSeconds: TestDirectory.nowSeconds)
  }

  func identity(_ name: String) throws -> TLSIdentity {
    let identity = try linkIdentity(name)
    return TLSIdentity(
      certificateChainPEM: identity.certificatePEM, privateKeyPEM: identity.keyPEM)
  }

  func connect(
    _ identity: TLSIdentity?, applicationProtocol: String = "apus-link/3",
    receiveBuffer: Int32? = nil
  ) throws -> RawTLSClient {
    let context = try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: .authorities(PEM: linkIdentity("a").authorityPEM), identity: identity,
        applicationProtocols: [applicationProtocol], serverName: "a.nodes.apus.internal"))
    let tcp = try RawTCPClient(address)
    if let receiveBuffer { tcp.shrinkReceiveBuffer(to: receiveBuffer) }
    return try RawTLSClient(tcp, context)
  }
}

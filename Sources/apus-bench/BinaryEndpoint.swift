import ApusCommand
import ApusLoop
import ApusModel
import ApusTLS

/// The address of the binary interface, and the provider's identity.
struct BinaryEndpoint {
  var address: SocketAddress
  var context: TLSContext

  /// - Parameter verifies: Whether the service's certificate is verified.
  init(_ invocation: Invocation, verifies: Bool = true) throws(CommandFailure) {
    try self.init(
      invocation,
      address: invocation.address(
        invocation.value(BenchOptions.gateway), of: BenchOptions.gateway), verifies: verifies)
  }

  init(
    _ invocation: Invocation, address: SocketAddress, verifies: Bool = true
  ) throws(CommandFailure) {
    self.address = address
    let trusted = try invocation.pem(BenchOptions.authority)
    let identity = TLSIdentity(
      certificateChainPEM: try invocation.pem(BenchOptions.certificate),
      privateKeyPEM: try invocation.pem(BenchOptions.certificateKey))
    do throws(TLSError) {
      context = try TLSContext(
        client: TLSClientConfiguration(
          trustRoots: .authorities(PEM: trusted), identity: identity,
          // The address is numeric, and the measured service is on this machine.
          verifiesHost: false, keepsSessions: false, insecureSkipVerify: !verifies))
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }
}

extension Invocation {
  fileprivate func pem(_ option: Option<String>) throws(CommandFailure) -> [UInt8] {
    Array(try readText(try require(option)).utf8)
  }

  fileprivate func address(
    _ text: HostPort, of option: Option<HostPort>
  ) throws(CommandFailure) -> SocketAddress {
    do throws(SocketError) {
      return try SocketAddress(text.description)
    } catch {
      throw failure(about: option, "\(error)")
    }
  }

  /// The source addresses and ports. A service with several workers assigns connections to them by the addresses and
  /// ports of both sides, so the source selects the worker.
  func sources() throws(CommandFailure) -> [SocketAddress] {
    var sources: [SocketAddress] = []
    for text in all(BenchOptions.source) {
      sources.append(try address(text, of: BenchOptions.source))
    }
    return sources
  }
}

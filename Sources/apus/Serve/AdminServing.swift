import ApusAdmin
import ApusCommand
import ApusDev
import ApusLoop
import ApusModel
import ApusServer
import ApusWeb

/// Turns the administration options of `apus serve` into a configuration.
struct AdminServing {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  /// Nil if administration is off.
  func configuration() throws(CommandFailure) -> AdminConfiguration? {
    let endpoints = invocation.value(AdminOptions.listen).list.map(\.endpoint)
    let addresses = try Opening.addresses(endpoints, for: AdminOptions.listen, invocation)
    let console = try Self.address(
      invocation[AdminOptions.console], port: Self.consolePort, for: AdminOptions.console,
      invocation)
    let hasSocket = invocation.value(AdminOptions.socket) == .unix
    guard hasSocket || !addresses.isEmpty || console != nil else { return nil }
    return AdminConfiguration(
      hasSocket: hasSocket, addresses: addresses, console: console.map { [$0] } ?? [],
      page: .serviceConsole, serverCertificate: try invocation.serverCertificates()["admin"],
      version: Program.version)
  }

  private static let consolePort: UInt16 = 2191

  /// The address of the console, by default of this machine only; nil if the option is not given.
  static func address(
    _ endpoint: ConsoleEndpoint?, port: UInt16, for option: Option<ConsoleEndpoint>,
    _ invocation: Invocation
  ) throws(CommandFailure) -> SocketAddress? {
    guard let endpoint else { return nil }
    do throws(SocketError) {
      return try SocketAddress(endpoint.address(host: "127.0.0.1", port: port).description)
    } catch {
      throw invocation.failure(about: option, "\(error)")
    }
  }

  /// The addresses at which a running service can be administered.
  static func endpoints(_ service: Service) -> [String] {
    [service.adminSocket].compactMap(\.self) + service.adminAddresses.map { "https://\($0)" }
  }
}

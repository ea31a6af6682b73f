import ApusAdmin
import ApusCommand
import ApusDev
import ApusLoop
import ApusServer
import ApusWeb

/// How `apus serve` lets itself be administered.
struct AdminServing {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  /// Nil where it does not.
  func configuration() throws(CommandFailure) -> AdminConfiguration? {
    let places = invocation.value(AdminOptions.listen).list.map(\.place)
    let addresses = try Opening.addresses(places, for: AdminOptions.listen, invocation)
    let console = try Self.address(
      invocation[AdminOptions.console], port: Self.consolePort, for: AdminOptions.console,
      invocation)
    let hasSocket = invocation.value(AdminOptions.socket) == .unix
    guard hasSocket || !addresses.isEmpty || console != nil else { return nil }
    return AdminConfiguration(
      hasSocket: hasSocket, addresses: addresses, console: console.map { [$0] } ?? [],
      page: .serviceConsole, version: Program.version)
  }

  private static let consolePort: UInt16 = 2191

  /// The address of a console, this machine's alone where none is said; nil where nothing is.
  static func address(
    _ place: ConsolePlace?, port: UInt16, for option: Option<ConsolePlace>,
    _ invocation: Invocation
  ) throws(CommandFailure) -> SocketAddress? {
    guard let place else { return nil }
    do throws(SocketError) {
      return try SocketAddress(place.address(host: "127.0.0.1", port: port).description)
    } catch {
      throw invocation.failure(about: option, "\(error)")
    }
  }

  /// Where a running service can be administered.
  static func places(_ service: Service) -> [String] {
    [service.adminSocket].compactMap(\.self) + service.adminAddresses.map { "https://\($0)" }
  }
}

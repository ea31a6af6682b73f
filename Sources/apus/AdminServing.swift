import ApusCommand
import ApusLoop
import ApusServer

/// How `apus serve` lets itself be administered.
struct AdminServing {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  /// Nil where it does not.
  func configuration() throws(CommandFailure) -> AdminConfiguration? {
    let places = invocation.value(AdminOptions.listen).list.map(\.place)
    let addresses = try Opening.addresses(places, for: AdminOptions.listen, invocation)
    let hasSocket = invocation.value(AdminOptions.socket) == .unix
    guard hasSocket || !addresses.isEmpty else { return nil }
    return AdminConfiguration(
      hasSocket: hasSocket, addresses: addresses, version: Program.version)
  }

  /// Where a running service can be administered.
  static func places(_ service: Service) -> [String] {
    [service.adminSocket].compactMap(\.self) + service.adminAddresses.map { "https://\($0)" }
  }
}

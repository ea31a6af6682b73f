/// A configured listener. Listeners with the same name differ in their addresses.
package struct ListenerPlan: Sendable, Hashable {
  package var name: String
  package var addresses: [SocketAddress]

  package init(name: String, addresses: [SocketAddress]) {
    self.name = name
    self.addresses = addresses
  }

  /// Finds the listener of each inherited socket: the one with its name, else the one with its address.
  ///
  /// A listener that gets sockets by name listens only on those. One that gets them by address opens its other
  /// addresses itself.
  package static func assign(
    _ sockets: [InheritedSocket], to plans: [ListenerPlan]
  ) throws(InheritedSocketError) -> [ListenerPlan] {
    var seen: Set<SocketAddress> = []
    var owners: [Int] = []
    for socket in sockets {
      guard seen.insert(socket.address).inserted else { throw .duplicate(socket.address) }
      owners.append(try owner(of: socket, among: plans))
    }
    var assigned = plans
    for index in plans.indices {
      let own = zip(sockets, owners).filter { $0.1 == index }.map(\.0)
      if own.contains(where: { $0.name == plans[index].name }) {
        assigned[index].addresses = own.map(\.address)
      }
      // One socket for both families: the kernel would refuse a second one for IPv4.
      let covered = own.filter { $0.takesIPv4 && $0.address.isEverywhere }
        .map { SocketAddress.anyIPv4(port: $0.address.port) }
      assigned[index].addresses.removeAll { covered.contains($0) && !seen.contains($0) }
    }
    for (socket, owner) in zip(sockets, owners) {
      let other = assigned.indices.first {
        $0 != owner && assigned[$0].addresses.contains(socket.address)
      }
      if let other {
        throw .claimedTwice(
          socket.address, listeners: [assigned[owner].name, assigned[other].name])
      }
    }
    return assigned
  }

  private static func owner(
    of socket: InheritedSocket, among plans: [ListenerPlan]
  ) throws(InheritedSocketError) -> Int {
    let named = plans.indices.filter { plans[$0].name == socket.name }
    let candidates = named.isEmpty ? Array(plans.indices) : named
    if let owner = candidates.first(where: { plans[$0].addresses.contains(socket.address) }) {
      return owner
    }
    if named.count > 1 { throw .ambiguous(socket) }
    guard let owner = named.first else {
      let names = plans.map(\.name)
      throw .unmatched(
        socket,
        listeners: names.indices.filter { names.firstIndex(of: names[$0]) == $0 }.map { names[$0] })
    }
    return owner
  }
}

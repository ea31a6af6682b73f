import ApusLoop

/// One round over all addresses of the service, until a connection is made.
final class ConnectRound {
  /// Untried addresses, the next one last.
  var addresses: [SocketAddress] = []
  var failures: [LinkFailure] = []
}

extension ClientDriver {
  /// Resolves the name for each round: its previous address may be what failed, and the answer changes.
  func connect() {
    takeUpCredentials()
    let round = ConnectRound()
    rounds.append(round)
    let target = configuration.proxy?.endpoint ?? configuration.endpoint
    configuration.resolve(target, loop) { [weak self, weak round] result in
      // The round may have been abandoned.
      guard let self, let round else { return }
      switch result {
      case .success(let addresses):
        round.addresses = spread(addresses).reversed()
      case .failure(let error): round.failures = [LinkFailure(error)]
      }
      connectToNext(round)
    }
  }

  /// Addresses with the fewest connections first, then in the resolver's order.
  private func spread(_ addresses: [SocketAddress]) -> [SocketAddress] {
    AddressSpread.order(addresses, inUse: links.filter { !$0.isClosed }.map(\.address))
  }

  func connectToNext(_ round: ConnectRound) {
    guard rounds.contains(where: { $0 === round }) else { return }
    while let address = round.addresses.popLast() {
      do throws(LinkFailure) {
        let deadline =
          loop.nowMilliseconds + UInt64(configuration.connectTimeoutSeconds) * 1000
        let link = try Link(
          to: address, through: configuration.tunnel, context: credentials.context, owner: self,
          deadlineMilliseconds: deadline)
        link.round = round
        links.append(link)
        return
      } catch {
        round.failures.append(error)
      }
    }
    rounds.removeAll { $0 === round }
    let failure = LinkFailure.sum(of: round.failures, host: configuration.endpoint.host)
    dispatcher.connectFailed(
      failure.text, isFinal: failure.isFinal, nowMilliseconds: loop.nowMilliseconds)
    configuration.observer?.client(.connectionFailed(failure.text))
  }
}

/// The order in which the addresses of a service are tried.
enum AddressSpread {
  /// Addresses with the fewest connections come first, which spreads connections over all of them. Equals keep the
  /// resolver's order (RFC 6724).
  static func order<Address: Hashable>(_ addresses: [Address], inUse: [Address]) -> [Address] {
    var uses: [Address: Int] = [:]
    for address in inUse { uses[address, default: 0] += 1 }
    var seen: Set<Address> = []
    let distinct = addresses.filter { seen.insert($0).inserted }
    return distinct.enumerated().sorted {
      (uses[$0.element, default: 0], $0.offset) < (uses[$1.element, default: 0], $1.offset)
    }.map(\.element)
  }
}

import ApusLoop

/// One round over all addresses of the service, until a connection is made.
final class ConnectRound {
  /// Those that were not tried, the next one last.
  var addresses: [SocketAddress] = []
  var failures: [LinkFailure] = []
}

extension ClientDriver {
  /// The name is looked up anew for each round: what it led to may be what failed, and the answer changes.
  func connect() {
    takeUpCredentials()
    let round = ConnectRound()
    rounds.append(round)
    let target = configuration.proxy?.endpoint ?? configuration.endpoint
    configuration.resolve(target, loop) { [weak self, weak round] result in
      // A round that was given up is gone by now.
      guard let self, let round else { return }
      switch result {
      case .success(let addresses):
        round.addresses = spread(addresses).reversed()
      case .failure(let error): round.failures = [LinkFailure(error)]
      }
      connectToNext(round)
    }
  }

  /// Those with the fewest connections first, and among these the resolver's order.
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

/// In which order the addresses of a service are tried.
enum AddressSpread {
  /// Those with the fewest connections come first, so that these spread over all of them. Among equals the order of the
  /// resolver (RFC 6724) holds.
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

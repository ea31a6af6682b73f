import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// What the worker's connections and devices ask of it.

extension Worker: ConnectionHost {
  func beginProtocol(of connection: Connection) -> ConnectionDriver? {
    // What another node passes on is for this one.
    if connection.linked == nil, let links = clientLinks[0],
      connection.listener.kind.isForwardedAtOnce
    {
      return ForwardedConnection(connection, links)
    }
    return switch connection.listener.kind {
    case .provider, .channels:
      HTTP2Provider(
        connection, providers, interception: connection.intercept(.http2, devices))
    case .courier: CourierConnection(connection, devices)
    case .gateway:
      BinaryProvider(
        connection, providers, interception: connection.intercept(.binary, devices))
    case .feedback: FeedbackConnection(reading: connection, clientLinks)
    case .link: connection.linkedNode == nil ? nil : LinkConnection(connection)
    }
  }

  func beginLink(
    of connection: Connection, _ use: LinkUse, at worker: Int?, unread: [UInt8]
  ) -> ConnectionDriver {
    connection.isLeaving
      ? LeavingLink(connection, HandedOverLink(use, at: worker, unread: unread))
      : link(connection, use, unread: unread)
  }

  private func link(
    _ connection: Connection, _ use: LinkUse, unread: [UInt8]
  ) -> ConnectionDriver {
    switch use {
    case .notifications: LinkedProvider(connection, providers, unread: unread)
    case .clients: LinkedClients(connection, unread: unread)
    case .administration: LinkedAdministration(connection, unread: unread)
    case .channels(let part): LinkedChannels(connection, ofPart: part, unread: unread)
    }
  }

  func listener(
    _ kind: ListenerKind, _ environment: Environment, ordinal: Int
  ) -> ServiceListener? {
    let fitting = listeners.filter { $0.kind == kind && $0.environment == environment }
    return fitting.first { $0.ordinal == ordinal } ?? fitting.first
  }

  func resumeProtocol(
    _ state: any HandedOverState, of connection: Connection
  ) -> ConnectionDriver? {
    if let device = state.device, let links = clientLinks[of: device] {
      return ForwardedConnection(
        connection, links, device: device,
        first: (state as? HandedOverDevice)?.connectFrame ?? [],
        goingOn: (state as? ResumedDevice)?.wholeState)
    }
    return switch state {
    case let provider as HandedOverProvider:
      HTTP2Provider(connection, providers, resuming: provider)
    case let device as HandedOverDevice: CourierConnection(connection, devices, resuming: device)
    case let device as ResumedDevice: CourierConnection(connection, devices, resuming: device)
    case let handed as HandedOverLink: link(connection, handed.use, unread: [])
    default: preconditionFailure("a connection was handed over in a state of no protocol")
    }
  }

  func readState(_ state: ClientState) -> (any HandedOverState)? { ResumedDevice(state) }

  func handOver(_ connection: HandedOverConnection) {
    let state = connection.state
    let worker =
      state?.device.map(context.ownerIndex) ?? (state as? HandedOverLink)?.worker
    router.send(.adopt(connection), to: worker ?? context.servingIndex)
  }

  /// At an edge whose node serves from now on: gives up to `limit` devices to its service.
  func moveOutDevices(limit: Int) -> [HandedOverConnection] {
    var moved: [HandedOverConnection] = []
    for connection in connections.awakeConnections where moved.count < limit {
      guard connection.listener.kind == .courier,
        let driver = connection.driver as? ForwardedConnection,
        let device = driver.moveOut({ ResumedDevice($0, unread: $1) })
      else { continue }
      moved.append(device)
    }
    return moved
  }

  /// Another node decides about a part of the devices, or none.
  func linkTargetChanged(ofPart part: Int) {
    router.linkTargetChanged(ofPart: part)
    clientLinks[part]?.targetChanged()
    guard part == 0 else { return }
    providers.requestLinks?.targetChanged()
    channelCopy?.targetChanged()
  }

  /// Gives back to the system what a crowd leaves: the free pages of the heap, and before them what is kept for reuse,
  /// objects that lie far apart now and hold a page each.
  func returnMemory() {
    devices.shard.pool.forgetFree()
    devices.memory.forgetSpare()
    context.shared.notificationPool.clear()
    providers.requestPool.forgetFree()
    HeapPages.returnFree()
  }
}

extension ListenerKind {
  /// Whether an edge passes a connection on as soon as the handshake says who its client is.
  fileprivate var isForwardedAtOnce: Bool { self == .gateway || self == .feedback }
}

extension Worker: DeviceHost {
  func wakeDevice(at slot: Int32) { wake(slot) }

  func nothingStored(at slot: Int32) { courier(at: slot)?.nothingStored() }

  func deviceRetired(at slot: Int32) { courier(at: slot)?.retire() }

  private func courier(at slot: Int32) -> CourierConnection? {
    connections.connection(at: slot)?.driver as? CourierConnection
  }
}

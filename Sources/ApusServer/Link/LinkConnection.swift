import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A connection that another node has made, before it has said what the connection is for.
final class LinkConnection: ConnectionDriver {
  private var head: [UInt8] = []
  private var isOver = false

  override init(_ connection: Connection) {
    super.init(connection)
    connection.schedule.deadlineSeconds =
      context.nowSeconds + Limits.linkHandshakeMilliseconds / 1000
  }

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    guard !isOver else { return }
    unsafe head.append(contentsOf: bytes)
    guard let first = head.first else { return }
    switch LinkPurpose(rawValue: first) {
    case .notifications:
      isOver = true
      connection.beginLink(.notifications, unread: Array(head.dropFirst()))
    case .administration:
      isOver = true
      connection.beginLink(.administration, unread: Array(head.dropFirst()))
    case .connection: readPeer()
    case nil: refuse("no purpose has the number \(first)")
    }
  }

  private func readPeer() {
    let head = head
    switch ForwardedPeer.read(head.span) {
    case .incomplete: return
    case .malformed: refuse("the description of a client is malformed")
    case .complete(let client, let byteCount):
      isOver = true
      guard connection.stand(for: client, rest: Array(head.dropFirst(byteCount))) else {
        return refuse(
          "there is no room, or no listener \(client.listener.rawValue) \(client.environment.name)")
      }
    }
  }

  private func refuse(_ fault: String) {
    isOver = true
    connection.noteLinkFault(fault)
    connection.close()
  }

  override func deadlineReached() { refuse("nothing was said in time") }
}

/// A link on its way to the worker that reads it.
final class HandedOverLink: HandedOverState {
  let use: LinkUse
  let unread: [UInt8]
  var device: DeviceID? { nil }

  init(_ use: LinkUse, unread: [UInt8]) {
    self.use = use
    self.unread = unread
  }
}

/// A link, until the worker has it.
final class LeavingLink: ConnectionDriver {
  private let use: LinkUse
  private let unread: [UInt8]

  init(_ connection: Connection, _ use: LinkUse, unread: [UInt8]) {
    self.use = use
    self.unread = unread
    super.init(connection)
  }

  override func leave() -> any HandedOverState { HandedOverLink(use, unread: unread) }
}

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
    guard head.count >= 2 else { return }
    guard let purpose = LinkPurpose(rawValue: head[0]) else {
      return refuse("no purpose has the number \(head[0])")
    }
    guard Int(head[1]) == context.configuration.share.part else {
      return refuse("another node decides about part \(head[1]) of the devices")
    }
    switch purpose {
    case .notifications: begin(.notifications, headByteCount: 2)
    case .administration: begin(.administration, headByteCount: 2)
    case .clients:
      guard head.count >= 4 else { return }
      let worker = Int(head[2]) << 8 | Int(head[3])
      guard worker < context.workerCount else { return refuse("there is no worker \(worker)") }
      begin(.clients, at: worker, headByteCount: 4)
    case .channels:
      guard head.count >= 3 else { return }
      let part = Int(head[2])
      guard part > 0, part < context.configuration.share.partCount else {
        return refuse("there is no part \(part) of the devices")
      }
      begin(.channels(part: part), headByteCount: 3)
    }
  }

  private func begin(_ use: LinkUse, at worker: Int? = nil, headByteCount: Int) {
    isOver = true
    connection.beginLink(use, at: worker, unread: Array(head.dropFirst(headByteCount)))
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
  /// The index of that worker; nil for any.
  let worker: Int?
  let unread: [UInt8]
  var device: DeviceID? { nil }

  init(_ use: LinkUse, at worker: Int?, unread: [UInt8]) {
    self.use = use
    self.worker = worker
    self.unread = unread
  }
}

/// A link, until the worker has it.
final class LeavingLink: ConnectionDriver {
  private let link: HandedOverLink

  init(_ connection: Connection, _ link: HandedOverLink) {
    self.link = link
    super.init(connection)
  }

  override func leave() -> any HandedOverState { link }
}

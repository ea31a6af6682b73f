import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A connection that another node has made, before it has said what the connection is for.
final class LinkConnection: ConnectionDriver {
  private var head: [UInt8] = []
  private var isOver = false

  /// Purpose, part, number of parts.
  private static let prefaceByteCount = 3

  override init(_ connection: Connection) {
    super.init(connection)
    connection.schedule.deadlineSeconds =
      context.nowSeconds + Limits.linkHandshakeMilliseconds / 1000
  }

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    guard !isOver else { return }
    unsafe head.append(contentsOf: bytes)
    guard head.count >= Self.prefaceByteCount else { return }
    guard let purpose = LinkPurpose(rawValue: head[0]) else {
      return refuse("no purpose has the number \(head[0])")
    }
    let share = context.configuration.share
    guard Int(head[2]) == share.partCount else {
      return refuse(
        "the devices are divided into \(counted(share.partCount, "part")), and not into \(head[2])")
    }
    guard Int(head[1]) == share.part else {
      return refuse("another node decides about part \(head[1]) of the devices")
    }
    let rest = head.dropFirst(Self.prefaceByteCount)
    switch purpose {
    case .notifications: begin(.notifications, unread: rest)
    case .administration: begin(.administration, unread: rest)
    case .clients:
      guard rest.count >= 2 else { return }
      let worker = rest.prefix(2).reduce(0) { $0 << 8 | Int($1) }
      guard worker < context.workerCount else { return refuse("there is no worker \(worker)") }
      begin(.clients, at: worker, unread: rest.dropFirst(2))
    case .channels:
      guard let part = rest.first.map({ Int($0) }) else { return }
      guard part > 0, part < share.partCount else {
        return refuse("there is no part \(part) of the devices")
      }
      begin(.channels(part: part), unread: rest.dropFirst())
    }
  }

  private func begin(_ use: LinkUse, at worker: Int? = nil, unread: ArraySlice<UInt8>) {
    isOver = true
    connection.beginLink(use, at: worker, unread: Array(unread))
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

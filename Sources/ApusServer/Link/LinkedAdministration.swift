import ApusAdmin
import ApusCore
import ApusLoop
import ApusModel
import ApusWire

/// A request that another node's administration passes on, and the answer to it.
final class LinkedAdministration: ConnectionDriver {
  private var input: [UInt8]
  private var isAsked = false
  private var output: [UInt8] = []
  private var sentCount = 0
  private var isAnswered = false

  private static let bytesAtOnce = 65_536

  /// - Parameter unread: What has come already.
  init(_ connection: Connection, unread: [UInt8]) {
    input = unread
    super.init(connection)
    connection.schedule.deadlineSeconds =
      context.nowSeconds + Limits.linkAdministrationMilliseconds / 1000
    read()
  }

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    guard !isAsked else { return }
    unsafe input.append(contentsOf: bytes)
    read()
  }

  private func read() {
    let received = input
    switch LinkExchange.read(received.span, atMost: Limits.linkRequestBytes) {
    case .incomplete: return
    case .tooLong:
      isAsked = true
      connection.noteLinkFault("a request of its administration is too long")
      connection.close()
    case .complete(let request):
      isAsked = true
      ask(request)
    }
  }

  private func ask(_ request: [UInt8]) {
    input = []
    guard let admin = context.shared.admin, let node = connection.linkedNode else {
      return connection.close()
    }
    let (table, loop, entry) = (connection.table, context.loop, connection.entry)
    admin.answer(request, from: node) { answer in
      loop.perform { (table.connection(entry)?.driver as? LinkedAdministration)?.take(answer) }
    }
  }

  private func take(_ answer: [UInt8]) {
    LinkExchange.encode(answer, to: &output)
    isAnswered = true
    connection.markDirty()
  }

  override func flush() -> Connection.Ending {
    while sentCount < output.count, connection.mayWrite {
      let part = Array(output[sentCount..<min(sentCount + Self.bytesAtOnce, output.count)])
      connection.encrypt(part, count: part.count)
      sentCount += part.count
      connection.writeOutput()
    }
    return isAnswered && sentCount == output.count ? .now : .none
  }

  override func deadlineReached() { connection.close() }
}

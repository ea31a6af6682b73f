import ApusLoop
import CSystemd
import Glibc

/// The user's session bus, through sd-bus (sd-bus(3)). Confined to its loop. The only owner of libsystemd's handles.
@safe
final class SessionBus: SocketHandler {
  private static let name = "org.freedesktop.Notifications"
  private static let path = "/org/freedesktop/Notifications"
  /// Microseconds for the server's answer.
  private static let answerMicroseconds: UInt64 = 10_000_000

  var onAction: ((UInt32, String) -> Void)?
  var onClosed: ((UInt32) -> Void)?
  /// Called once, when the connection has ended by itself.
  var onEnd: ((String) -> Void)?

  private let loop: EventLoop
  private let bus: OpaquePointer
  private var socket: Socket?
  private var timer: LoopTimer?
  /// Unanswered calls.
  private var calls: [ObjectIdentifier: BusCall] = [:]
  private var isOpen = true
  private var isInTurn = false

  init(loop: EventLoop) throws(AgentFault) {
    self.loop = loop
    var opened: OpaquePointer?
    let code = unsafe sd_bus_open_user(&opened)
    guard code >= 0, let opened = unsafe opened else {
      throw AgentFault("there is no session bus: \(errorText(-code))")
    }
    unsafe bus = opened
    do throws(SocketError) {
      // A duplicate, because the socket closes what it adopts.
      let socket = try Socket(
        adopting: fcntl(unsafe sd_bus_get_fd(bus), F_DUPFD_CLOEXEC, 0), loop: loop)
      self.socket = socket
      socket.handler = self
    } catch {
      unsafe sd_bus_unref(bus)
      throw AgentFault("cannot watch the session bus: \(error)")
    }
    timer = LoopTimer(loop: loop) { [weak self] in self?.pump() }
    unsafe watch("ActionInvoked", actionInvoked)
    unsafe watch("NotificationClosed", notificationClosed)
    pump()
  }

  private func watch(_ signal: String, _ callback: sd_bus_message_handler_t) {
    unsafe sd_bus_match_signal_async(
      bus, nil, Self.name, Self.path, Self.name, signal, callback, nil,
      Unmanaged.passUnretained(self).toOpaque())
  }

  deinit {
    socket?.close()
    unsafe sd_bus_close(bus)
    unsafe sd_bus_unref(bus)
  }

  // MARK: Turns

  func socketReadable() { pump() }
  func socketWritable() { pump() }

  /// Lets sd-bus read, write and call back, and asks the loop for what it waits for.
  private func pump() {
    // A call from a callback: the turn that is under way sends it.
    guard isOpen, !isInTurn else { return }
    isInTurn = true
    defer { isInTurn = false }
    while true {
      let code = unsafe sd_bus_process(bus, nil)
      if code < 0 { return end(errorText(-code)) }
      if code == 0 { break }
    }
    let events = unsafe sd_bus_get_events(bus)
    guard events >= 0 else { return end(errorText(-events)) }
    socket?.setInterest(
      reading: events & Int32(POLLIN) != 0, writing: events & Int32(POLLOUT) != 0)
    var due: UInt64 = .max
    guard unsafe sd_bus_get_timeout(bus, &due) >= 0, due != .max else {
      timer?.stop()
      return
    }
    loop.updateNow()
    let now = EventLoop.monotonicMilliseconds()
    timer?.start(afterMilliseconds: due / 1000 > now ? due / 1000 - now + 1 : 0)
  }

  private func end(_ reason: String) {
    isOpen = false
    socket?.close()
    timer?.close()
    let open = calls
    calls = [:]
    for call in open.values { call.finish(nil, reason) }
    onEnd?(reason)
  }

  // MARK: Calls

  func notify(
    _ note: DesktopNote, replacing: UInt32,
    completion: @escaping (Result<UInt32, AgentFault>) -> Void
  ) {
    call("Notify") { message in
      message.append(note, replacing: replacing)
    } completion: { answer, reason in
      guard let id = answer?.nextNumber() else {
        return completion(.failure(AgentFault(reason ?? "an answer without a number")))
      }
      completion(.success(id))
    }
  }

  func askCapabilities(_ completion: @escaping (Result<[String], AgentFault>) -> Void) {
    call("GetCapabilities") { _ in
    } completion: { answer, reason in
      guard let answer else { return completion(.failure(AgentFault(reason ?? "no answer"))) }
      completion(.success(answer.texts()))
    }
  }

  /// The number on the icon of an application, as docks understand it: the signal of Unity's launcher.
  func setBadge(_ badge: Int, desktop: String) {
    var signal: OpaquePointer?
    guard
      unsafe sd_bus_message_new_signal(
        bus, &signal, "/com/canonical/unity/launcherentry/apus",
        "com.canonical.Unity.LauncherEntry", "Update") >= 0, let signal = unsafe signal
    else { return }
    defer { unsafe sd_bus_message_unref(signal) }
    unsafe BusMessage(signal).appendBadge(badge, desktop: desktop)
    unsafe sd_bus_send(bus, signal, nil)
    pump()
  }

  private func call(
    _ method: String, _ fill: (BusMessage) -> Void,
    completion: @escaping (BusMessage?, String?) -> Void
  ) {
    guard isOpen else { return completion(nil, "the session bus has gone") }
    var message: OpaquePointer?
    guard
      unsafe sd_bus_message_new_method_call(
        bus, &message, Self.name, Self.path, Self.name, method) >= 0, let message = unsafe message
    else { return completion(nil, "cannot make a message") }
    defer { unsafe sd_bus_message_unref(message) }
    unsafe fill(BusMessage(message))
    let call = BusCall(owner: self, completion: completion)
    calls[ObjectIdentifier(call)] = call
    let code = unsafe sd_bus_call_async(
      bus, nil, message, answered, Unmanaged.passUnretained(call).toOpaque(),
      Self.answerMicroseconds)
    guard code >= 0 else {
      calls[ObjectIdentifier(call)] = nil
      return call.finish(nil, errorText(-code))
    }
    pump()
  }

  fileprivate func take(_ call: BusCall) -> BusCall? {
    calls.removeValue(forKey: ObjectIdentifier(call))
  }
}

/// A call that waits for its answer.
private final class BusCall {
  private weak var owner: SessionBus?
  private let completion: (BusMessage?, String?) -> Void

  init(owner: SessionBus, completion: @escaping (BusMessage?, String?) -> Void) {
    self.owner = owner
    self.completion = completion
  }

  func finish(_ answer: BusMessage?, _ reason: String?) { completion(answer, reason) }

  /// Nil if its bus has given it up.
  func taken() -> BusCall? { owner?.take(self) }
}

private func answered(
  _ message: OpaquePointer?, _ data: UnsafeMutableRawPointer?,
  _: UnsafeMutablePointer<sd_bus_error>?
) -> Int32 {
  guard let data = unsafe data, let message = unsafe message,
    let call = unsafe Unmanaged<BusCall>.fromOpaque(data).takeUnretainedValue().taken()
  else { return 0 }
  if let error = unsafe sd_bus_message_get_error(message) {
    let text = unsafe error.pointee.message.map { unsafe String(cString: $0) }
    call.finish(nil, text ?? "the desktop refused")
  } else {
    unsafe call.finish(BusMessage(message), nil)
  }
  return 0
}

private func actionInvoked(
  _ message: OpaquePointer?, _ data: UnsafeMutableRawPointer?,
  _: UnsafeMutablePointer<sd_bus_error>?
) -> Int32 {
  guard let data = unsafe data, let message = unsafe message.map({ unsafe BusMessage($0) }),
    let id = message.nextNumber(), let action = message.nextText()
  else { return 0 }
  unsafe Unmanaged<SessionBus>.fromOpaque(data).takeUnretainedValue().onAction?(id, action)
  return 0
}

private func notificationClosed(
  _ message: OpaquePointer?, _ data: UnsafeMutableRawPointer?,
  _: UnsafeMutablePointer<sd_bus_error>?
) -> Int32 {
  guard let data = unsafe data, let message = unsafe message.map({ unsafe BusMessage($0) }),
    let id = message.nextNumber()
  else { return 0 }
  unsafe Unmanaged<SessionBus>.fromOpaque(data).takeUnretainedValue().onClosed?(id)
  return 0
}

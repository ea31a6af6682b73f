import ApusLoop
import CAgent
import Glibc

/// A running command. Confined to its loop.
final class CommandProcess: SocketHandler {
  enum Ending: Equatable {
    case exited(Int32)
    case killed(signal: Int32)
    case timedOut
  }

  /// What a command gets.
  struct Setup {
    var words: [String]
    var directory: String
    /// Nil: the agent's own user.
    var account: Account?
    var variables: [(name: String, value: String)]
    var input: [UInt8]
    var timeoutSeconds: Int
    /// For standard output and standard error.
    var output: Int32
    /// The file to which the start is written, and its lines; nil: nowhere.
    var record: (file: Int32, started: String, notStarted: String)?
  }

  /// Milliseconds from SIGTERM to SIGKILL.
  private static let patienceMilliseconds: UInt64 = 5000

  private let process: pid_t
  private var socket: Socket?
  private var timer: LoopTimer?
  private var isLate = false
  private var ended: ((Ending) -> Void)?

  /// Starts the command. When this returns, it runs, and its start is recorded.
  ///
  /// - Throws: If nothing runs.
  init(
    _ setup: Setup, loop: EventLoop, ended: @escaping (Ending) -> Void
  ) throws(AgentFault) {
    self.ended = ended
    process = try Self.start(setup)
    let descriptor = apus_process_descriptor(process)
    do throws(SocketError) {
      guard descriptor >= 0 else { throw .system(.watch, code: errno, nil) }
      let socket = try Socket(adopting: descriptor, loop: loop)
      self.socket = socket
      let timer = LoopTimer(loop: loop) { [weak self] in self?.timePassed() }
      self.timer = timer
      loop.updateNow()
      timer.start(afterMilliseconds: UInt64(setup.timeoutSeconds) * 1000)
      socket.handler = self
      socket.setInterest(reading: true, writing: false)
    } catch {
      // It cannot be watched, so that it must not run; its start is recorded.
      kill(-process, SIGKILL)
      _ = waitpid(process, nil, 0)
      throw AgentFault("cannot watch the command: \(error)")
    }
  }

  private static func start(_ setup: Setup) throws(AgentFault) -> pid_t {
    let input = try pipe(holding: setup.input)
    defer { close(input) }
    let account = setup.account ?? Account(user: geteuid())
    var environment = [
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "HOME=\(account?.home ?? "/")", "USER=\(account?.name ?? "")",
      "LOGNAME=\(account?.name ?? "")", "LANG=\(Self.language)",
    ]
    environment += setup.variables.map { "\($0.name)=\($0.value)" }
    let arguments = unsafe CStrings(setup.words)
    let variables = unsafe CStrings(environment)
    let texts = unsafe CStrings(
      [setup.words[0], setup.directory] + (setup.record.map { [$0.started, $0.notStarted] } ?? []))
    defer {
      unsafe arguments.free()
      unsafe variables.free()
      unsafe texts.free()
    }
    let groups = account?.groups ?? []
    let process = unsafe groups.withUnsafeBufferPointer { groups in
      var command = unsafe apus_command()
      unsafe command.program = UnsafePointer(texts[0])
      unsafe command.directory = UnsafePointer(texts[1])
      unsafe command.arguments = UnsafePointer(arguments.base)
      unsafe command.environment = UnsafePointer(variables.base)
      unsafe command.changes_user = setup.account == nil ? 0 : 1
      unsafe command.user = account?.user ?? 0
      unsafe command.group = account?.group ?? 0
      unsafe command.groups = groups.baseAddress
      unsafe command.group_count = Int32(groups.count)
      unsafe command.input = input
      unsafe command.output = setup.output
      unsafe command.record = setup.record?.file ?? -1
      if setup.record != nil {
        unsafe command.started = UnsafePointer(texts[2])
        unsafe command.not_started = UnsafePointer(texts[3])
      }
      return unsafe apus_command_start(&command)
    }
    guard process > 0 else {
      throw AgentFault("cannot start \(setup.words[0]): \(errorText(errno))")
    }
    return process
  }

  private static let language =
    unsafe getenv("LANG").map { unsafe String(cString: $0) } ?? "C.UTF-8"

  /// The reading end of a pipe that holds `bytes`, which are far fewer than a pipe takes.
  private static func pipe(holding bytes: [UInt8]) throws(AgentFault) -> Int32 {
    var ends: [Int32] = [-1, -1]
    guard unsafe Glibc.pipe(&ends) == 0 else {
      throw AgentFault("cannot make a pipe: \(errorText(errno))")
    }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
    let isWritten = StateFiles.append(bytes, to: ends[1])
    close(ends[1])
    guard isWritten else {
      close(ends[0])
      throw AgentFault("cannot hand over the payload: \(errorText(errno))")
    }
    return ends[0]
  }

  // MARK: Its end

  func socketWritable() {}

  func socketReadable() {
    var status: Int32 = 0
    guard unsafe waitpid(process, &status, WNOHANG) == process else { return }
    socket?.close()
    timer?.close()
    let ended = ended
    self.ended = nil
    let signal = status & 0x7f
    if isLate {
      ended?(.timedOut)
    } else {
      ended?(signal == 0 ? .exited(status >> 8 & 0xff) : .killed(signal: signal))
    }
  }

  private func timePassed() {
    // The process leads its group: whatever it started ends, too.
    kill(-process, isLate ? SIGKILL : SIGTERM)
    if !isLate { timer?.start(afterMilliseconds: Self.patienceMilliseconds) }
    isLate = true
  }
}

/// Strings for C, with a null pointer at the end.
@unsafe private struct CStrings {
  let base: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
  private let count: Int

  init(_ texts: [String]) {
    unsafe count = texts.count
    unsafe base = .allocate(capacity: count + 1)
    for (index, text) in texts.enumerated() { unsafe base[index] = strdup(text) }
    unsafe base[count] = nil
  }

  subscript(index: Int) -> UnsafeMutablePointer<CChar>? { unsafe base[index] }

  func free() {
    for index in unsafe 0..<count { unsafe Glibc.free(base[index]) }
    unsafe base.deallocate()
  }
}

package import Foundation
import Glibc
import Synchronization

/// A PostgreSQL server of the tests' own: in a new directory, reached through a socket in it, as the user `postgres` if
/// the tests run as root. It ends with this process, however that ends.
package final class PostgresServer: Sendable {
  /// One for all tests of a process.
  package static let shared: PostgresServer = {
    do { return try PostgresServer() } catch { fatalError("no database server: \(error)") }
  }()

  package let directory: URL
  private let settings: [String]
  private let run = Mutex<Run?>(nil)
  private let databases = Mutex<Set<String>>([])

  /// A run of the server: a shell that has it as a child, and ends it when its own input ends.
  private struct Run {
    let process: Process
    let lifeline: FileHandle
  }

  package struct Problem: Error, CustomStringConvertible {
    package var description: String
  }

  /// - Parameters:
  ///   - settings: Besides those for a small server, for example "max_connections=20".
  ///   - primary: The server whose standby this one becomes, under the name "standby"; nil for a server of its own.
  package init(settings: [String] = [], standbyOf primary: PostgresServer? = nil) throws {
    directory = FileManager.default.temporaryDirectory.appending(
      path: "apus-postgres-\(UUID().uuidString.prefix(8))")
    self.settings = settings
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
    if geteuid() == 0 { try Self.run(["/bin/chown", "postgres:", directory.path()]) }
    let data = "--pgdata=\(directory.path())/data"
    if let primary {
      try Self.run(
        Self.asUser() + [
          Self.program("pg_basebackup").path(), data, "--write-recovery-conf", "--no-sync",
          "--checkpoint=fast",
          "--dbname=host=\(primary.directory.path()) user=postgres application_name=standby",
        ])
    } else {
      try Self.run(
        Self.asUser() + [
          Self.program("initdb").path(), "--no-sync", "--auth=trust", "--username=postgres",
          "--encoding=UTF8", "--locale=C", data,
        ])
    }
    try start()
  }

  deinit {
    run.withLock { run in
      // The shell removes the directory of a server that runs.
      guard let run else {
        try? FileManager.default.removeItem(at: directory)
        return
      }
      try? run.lifeline.close()
    }
  }

  /// Starts the server, which does not run.
  package func start() throws {
    let options =
      [
        "listen_addresses=", "unix_socket_directories=\(directory.path())", "shared_buffers=16MB",
        "max_connections=200", "log_min_messages=fatal", "autovacuum_naptime=5s",
        // In the directory: a server that is killed leaves its shared memory.
        "dynamic_shared_memory_type=mmap",
      ] + settings
    let command =
      try Self.asUser() + [Self.program("postgres").path(), "-D", "\(directory.path())/data"]
      + options.flatMap { ["-c", $0] }
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    // The directory goes only with this process, so that a server that was killed can start again.
    process.arguments = ["-c", Self.script, directory.path()] + command
    let input = Pipe()
    process.standardInput = input
    let output = directory.appending(path: "log")
    try Data().write(to: output)
    process.standardOutput = try FileHandle(forWritingTo: output)
    process.standardError = process.standardOutput
    try process.run()
    // No other child of this process may keep it open.
    _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
    run.withLock { $0 = Run(process: process, lifeline: input.fileHandleForWriting) }
    try waitUntilReady(process)
  }

  private static let script = """
    "$@" & pid=$!
    read -r command
    pkill -KILL -P $pid
    kill -KILL $pid 2>/dev/null
    wait
    [ "$command" = keep ] || rm -rf "$0"
    """

  /// In front of a command that must not run as root.
  private static func asUser() throws -> [String] {
    geteuid() == 0
      ? ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"] : []
  }

  /// A program of the newest version that Debian has put here.
  private static func program(_ name: String) throws -> URL {
    let root = URL(filePath: "/usr/lib/postgresql")
    let versions = try FileManager.default.contentsOfDirectory(atPath: root.path())
    guard let version = versions.max(by: { (Int($0) ?? 0) < (Int($1) ?? 0) }) else {
      throw Problem(description: "no PostgreSQL server is installed: see scripts/setup.sh test")
    }
    return root.appending(path: "\(version)/bin/\(name)")
  }

  /// Runs a command to its end and returns its output, which goes to files: a server that another test starts meanwhile
  /// would inherit a pipe and keep it open.
  @discardableResult
  private static func run(_ command: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(filePath: command[0])
    process.arguments = Array(command.dropFirst())
    let base = FileManager.default.temporaryDirectory.appending(path: "apus-\(UUID().uuidString)")
    let (output, errors) = (base.appendingPathExtension("out"), base.appendingPathExtension("err"))
    for file in [output, errors] { try Data().write(to: file) }
    defer { for file in [output, errors] { try? FileManager.default.removeItem(at: file) } }
    process.standardOutput = try FileHandle(forWritingTo: output)
    process.standardError = try FileHandle(forWritingTo: errors)
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    let text = try String(contentsOf: output, encoding: .utf8)
    guard process.terminationStatus == 0 else {
      let message = try String(contentsOf: errors, encoding: .utf8)
      throw Problem(description: "\(command[0]): \(message)\(text)")
    }
    return text
  }

  private func waitUntilReady(_ process: Process) throws {
    for _ in 0..<600 {
      if (try? sql("SELECT 1", in: "postgres")) != nil { return }
      guard process.isRunning else { break }
      Thread.sleep(forTimeInterval: 0.05)
    }
    let log = try? String(contentsOf: directory.appending(path: "log"), encoding: .utf8)
    throw Problem(description: "the server does not start: \(log ?? "")")
  }

  // MARK: Faults

  /// Ends the server as a power cut does, and keeps its directory.
  package func kill() throws {
    try run.withLock { run in
      guard let last = run.take() else { return }
      try last.lifeline.write(contentsOf: Data("keep\n".utf8))
      last.process.waitUntilExit()
      try last.lifeline.close()
    }
  }

  /// Makes a standby the primary.
  package func promote() throws { try sql("SELECT pg_promote()", in: "postgres") }

  /// Sends a signal to each process of the server: SIGSTOP freezes it, SIGCONT thaws it.
  package func signalAll(_ signal: Int32) throws {
    let file = directory.appending(path: "data/postmaster.pid")
    let text = try String(contentsOf: file, encoding: .utf8)
    guard let main = text.split(separator: "\n").first.flatMap({ pid_t($0) }) else {
      throw Problem(description: "no process id in \(file.path())")
    }
    let children = try? Self.run(["/usr/bin/pgrep", "-P", "\(main)"])
    let all = [main] + (children ?? "").split(separator: "\n").compactMap { pid_t($0) }
    for process in all { Glibc.kill(process, signal) }
  }

  // MARK: Databases

  /// The address of a database, which is made if there is none of that name.
  package func address(of database: String) throws -> String {
    try databases.withLock { databases in
      guard databases.insert(database).inserted else { return }
      try sql("CREATE DATABASE \"\(database)\"", in: "postgres")
    }
    return "postgresql:///\(database)?host=\(directory.path())&user=postgres"
  }

  /// A client that is connected until its end.
  package struct Client {
    fileprivate let process: Process
    fileprivate let input: FileHandle

    package func end() {
      try? input.close()
      process.waitUntilExit()
    }
  }

  /// Executes commands, which may leave a transaction open, and stays connected.
  package func holdOpen(
    _ text: String, in database: String, as application: String
  ) throws -> Client {
    let process = Process()
    process.executableURL = try Self.program("psql")
    process.arguments = [
      "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1",
      "--host=\(directory.path())", "--username=postgres", "--dbname=\(database)",
    ]
    process.environment = ProcessInfo.processInfo.environment.merging(
      ["PGAPPNAME": application]) { $1 }
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    try input.fileHandleForWriting.write(contentsOf: Data("\(text)\nSELECT 'done';\n".utf8))
    var seen = Data()
    while !String(decoding: seen, as: UTF8.self).contains("done") {
      let more = output.fileHandleForReading.availableData
      guard !more.isEmpty else { throw Problem(description: "psql ended: \(text)") }
      seen += more
    }
    return Client(process: process, input: input.fileHandleForWriting)
  }

  /// Executes a command, and returns its rows with "|" between their fields.
  @discardableResult
  package func sql(_ text: String, in database: String) throws -> [String] {
    try Self.run(
      [
        Self.program("psql").path(), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
        "--set=ON_ERROR_STOP=1", "--host=\(directory.path())", "--username=postgres",
        "--dbname=\(database)", "--command=\(text)",
      ]
    ).split(separator: "\n").map { String($0) }
  }
}

/// Files for the program itself.
package enum AgentFiles {
  package static func bytes(_ path: String) throws(AgentFault) -> [UInt8]? {
    try StateFiles.read(path)
  }

  /// The text of a file; nil if it does not exist.
  package static func text(_ path: String) throws(AgentFault) -> String? {
    try StateFiles.readText(path)
  }

  /// Whether this process has the capability CAP_SETUID.
  package static var mayChangeUser: Bool {
    let status = (try? StateFiles.readText("/proc/self/status")) ?? nil
    let line = status?.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
    let mask = line?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) } ?? 0
    return mask & 1 << 7 != 0
  }
}

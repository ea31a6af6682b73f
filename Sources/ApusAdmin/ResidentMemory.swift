import ApusDirectory
import Glibc

/// The resident memory of the process in bytes; nil if the system does not report it.
package func residentBytes() -> Int64? {
  guard let text = try? Files.readText("/proc/self/statm") else { return nil }
  let pages = text.split(separator: " ").dropFirst().first.flatMap { Int64($0) }
  return pages.map { $0 * Int64(sysconf(Int32(_SC_PAGESIZE))) }
}

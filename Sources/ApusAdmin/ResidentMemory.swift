import ApusDirectory
import Glibc

/// Bytes of memory that the process has now; nil where the system does not say.
package func residentBytes() -> Int64? {
  guard let text = try? Files.readText("/proc/self/statm") else { return nil }
  let pages = text.split(separator: " ").dropFirst().first.flatMap { Int64($0) }
  return pages.map { $0 * Int64(sysconf(Int32(_SC_PAGESIZE))) }
}

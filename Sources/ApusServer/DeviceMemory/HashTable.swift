import ApusCore
import ApusModel

/// A place of a `HashTable`.
protocol HashTableEntry {
  static var free: Self { get }
  var isFree: Bool { get }
}

/// Finds entries by hashes of the caller's choice, by linear probing. At most half of its places are taken.
///
/// The caller compares keys, which need not be in the entries.
struct HashTable<Entry: HashTableEntry> {
  /// A power of two.
  private var entries = [Entry](repeating: .free, count: Self.fewest)
  private(set) var count = 0

  private static var fewest: Int { 16 }

  var indices: Range<Int> { entries.indices }

  /// To change an entry, not to take or free a place.
  subscript(index: Int) -> Entry {
    _read { yield entries[index] }
    _modify { yield &entries[index] }
  }

  /// The index of the entry that matches, or of the free place for it.
  @inline(__always)
  func index(_ hash: Int, where matches: (Int) -> Bool) -> Int {
    var index = hash & (entries.count - 1)
    while !entries[index].isFree, !matches(index) { index = (index + 1) & (entries.count - 1) }
    return index
  }

  /// Takes the free place that `index` found. Afterwards all entries may have other indices.
  mutating func insert(_ entry: Entry, at index: Int, hash: (Entry) -> Int) {
    entries[index] = entry
    count += 1
    if count * 2 > entries.count { rebuild(hash) }
  }

  /// Frees a place, and moves later entries that a search would otherwise miss.
  mutating func remove(at index: Int, hash: (Entry) -> Int) {
    let mask = entries.count - 1
    var free = index
    var next = (index + 1) & mask
    while !entries[next].isFree {
      let start = hash(entries[next]) & mask
      if (next - start) & mask >= (next - free) & mask {
        entries.swapAt(free, next)
        free = next
      }
      next = (next + 1) & mask
    }
    entries[free] = .free
    count -= 1
  }

  /// Makes a smaller table if hardly any of its places is taken. Returns whether it did.
  mutating func shrink(hash: (Entry) -> Int) -> Bool {
    guard count * 16 < entries.count, entries.count > Self.fewest else { return false }
    rebuild(hash)
    return true
  }

  /// Makes a table that is at most a quarter full.
  private mutating func rebuild(_ hash: (Entry) -> Int) {
    let old = entries
    var size = Self.fewest
    while size < count * 4 { size *= 2 }
    entries = [Entry](repeating: .free, count: size)
    for entry in old where !entry.isFree {
      entries[index(hash(entry)) { _ in false }] = entry
    }
  }
}

extension DeviceKey {
  /// For a `HashTable`.
  ///
  /// Far cheaper than the standard library's hash, which withstands keys that an attacker chose; here the service's
  /// authority chose them. The bits that chose the worker (`Worker.ownerIndex`) are similar for all devices of one
  /// worker, so this hash uses another multiplication.
  var tableHash: Int {
    let mixed = (id.rawValue ^ UInt64(environment.rawValue)) &* 0xd6e8_feb8_6659_fd93
    return Int(truncatingIfNeeded: mixed &>> 32)
  }
}

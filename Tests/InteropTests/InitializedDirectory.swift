import Foundation
import Synchronization

/// What `apus init` made and printed. Making it takes a quarter of a second, mostly for an RSA key.
struct InitializedDirectory: Sendable {
  private struct Entry: Sendable {
    var path: String
    var mode: Int
    /// Nil for a folder.
    var content: Data?
  }

  private struct State {
    var inUse = 0
    var made: [[String]: InitializedDirectory] = [:]
  }

  private static let state = Mutex(State())

  private let entries: [Entry]
  private let folder: String
  private let printed: String

  /// Makes a data directory, which has to be given back. Where another one is in use they have nothing in common, and
  /// otherwise it may be a copy of an earlier one.
  ///
  /// - Returns: What `apus init` prints.
  static func make(
    _ directory: URL, options: [String], by initialize: () throws -> String
  ) throws -> String {
    let (isAlone, copied) = state.withLock { state in
      state.inUse += 1
      return (state.inUse == 1, state.inUse == 1 ? state.made[options] : nil)
    }
    do {
      if let copied { return try copied.write(to: directory) }
      let printed = try initialize()
      if isAlone {
        let made = try InitializedDirectory(directory, printed)
        state.withLock { $0.made[options] = made }
      }
      return printed
    } catch {
      giveBack()
      throw error
    }
  }

  static func giveBack() {
    state.withLock { $0.inUse -= 1 }
  }

  private init(_ directory: URL, _ printed: String) throws {
    let manager = FileManager.default
    entries = try manager.subpathsOfDirectory(atPath: directory.path).sorted().map { path in
      let file = directory.appending(path: path).path
      let attributes = try manager.attributesOfItem(atPath: file)
      guard let mode = attributes[.posixPermissions] as? Int else {
        throw Trouble("no permissions of \(file)")
      }
      let isFolder = attributes[.type] as? FileAttributeType == .typeDirectory
      let content = isFolder ? nil : try Data(contentsOf: URL(filePath: file))
      return Entry(path: path, mode: mode, content: content)
    }
    folder = directory.path
    self.printed = printed
  }

  private func write(to directory: URL) throws -> String {
    let manager = FileManager.default
    try manager.createDirectory(
      at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    for entry in entries {
      let file = directory.appending(path: entry.path)
      if let content = entry.content {
        try content.write(to: file)
      } else {
        try manager.createDirectory(at: file, withIntermediateDirectories: false)
      }
      try manager.setAttributes([.posixPermissions: entry.mode], ofItemAtPath: file.path)
    }
    return printed.replacing(folder, with: directory.path)
  }
}

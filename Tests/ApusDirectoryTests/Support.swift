import ApusDirectory
import ApusModel
import ApusStore
import ApusTesting
import Foundation

/// A backup's folder as files by path, with their content.
func tree(_ path: String) throws -> [String: Data] {
  var files: [String: Data] = [:]
  for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
    var isFolder: ObjCBool = false
    _ = FileManager.default.fileExists(atPath: "\(path)/\(name)", isDirectory: &isFolder)
    if !isFolder.boolValue { files[name] = try Data(contentsOf: URL(filePath: "\(path)/\(name)")) }
  }
  return files
}

func mode(_ path: String) throws -> Int {
  let value = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
  return (value as? Int) ?? 0
}

extension DataDirectory {
  static let nowSeconds: Int64 = 1_800_000_000

  /// A backup at `target` while no service runs.
  @discardableResult
  func backUp(to target: String) throws -> Backup {
    try Backup.make(
      of: self, at: target, program: "0.2.0", nowSeconds: Self.nowSeconds,
      copyRunningStore: { throw CancellationError() })
  }

  func restore(
    _ path: String, keepsTokens: Bool = false, step: UInt16 = 300
  ) throws -> Restore.Report {
    try Restore(
      Backup(path: path), into: self, keepsTokens: keepsTokens, step: step,
      nowSeconds: Self.nowSeconds + 60
    ).run()
  }
}

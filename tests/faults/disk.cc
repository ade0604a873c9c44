#include "tests/faults/disk.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace folio::faults {
namespace {

namespace fs = std::filesystem;

std::string FileBytes(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace

std::vector<Change> ReadJournal(const fs::path& file) {
  const std::string text = FileBytes(file);
  std::vector<Change> changes;
  for (size_t at = 0; at + sizeof(ChangeHeader) <= text.size();) {
    ChangeHeader header;
    std::memcpy(&header, text.data() + at, sizeof(header));
    at += sizeof(header);
    if (text.size() - at < size_t{header.path_bytes} + header.other_bytes) break;
    changes.push_back({static_cast<Change::What>(header.what), header.inode, header.offset,
                       text.substr(at, header.path_bytes),
                       text.substr(at + header.path_bytes, header.other_bytes)});
    at += size_t{header.path_bytes} + header.other_bytes;
  }
  return changes;
}

Disk::Object Disk::Made(uint64_t inode, File file) {
  objects_.push_back(std::move(file));
  by_inode_[inode] = objects_.size() - 1;
  return objects_.size() - 1;
}

Disk::Place Disk::PlaceOf(const std::string& path) const {
  Object directory = 1;  // the root comes first
  size_t begin = 0;
  for (size_t slash; (slash = path.find('/', begin)) != path.npos; begin = slash + 1) {
    directory = now_.at(directory).at(path.substr(begin, slash - begin));
  }
  return {directory, path.substr(begin)};
}

Disk::Object Disk::At(const std::string& path) const {
  const Place place = PlaceOf(path);
  const Names& names = now_.at(place.first);
  const auto found = names.find(place.second);
  return found == names.end() ? 0 : found->second;
}

void Disk::Do(const Step& step, std::map<Object, Names>& names) {
  for (const auto& [place, object] : step.names) {
    if (object == 0) {
      names[place.first].erase(place.second);
    } else {
      names[place.first][place.second] = object;
    }
  }
}

void Disk::Take(Step step) {
  Do(step, now_);
  unsynced_.push_back(std::move(step));
}

// With the steps in this directory, earlier steps that involve the same names become durable.
void Disk::SyncNames(Object directory) {
  std::set<Place> wanted;
  std::vector<bool> chosen(unsynced_.size());
  for (size_t i = unsynced_.size(); i-- > 0;) {
    const auto& names = unsynced_[i].names;
    chosen[i] = std::ranges::any_of(names, [&](const auto& name) {
      return name.first.first == directory || wanted.contains(name.first);
    });
    if (!chosen[i]) continue;
    for (const auto& [place, object] : names) wanted.insert(place);
  }
  std::vector<Step> rest;
  for (size_t i = 0; i < unsynced_.size(); ++i) {
    if (chosen[i]) {
      Do(unsynced_[i], safe_);
    } else {
      rest.push_back(std::move(unsynced_[i]));
    }
  }
  unsynced_ = std::move(rest);
}

void Disk::Apply(const Change& change) {
  const auto known = by_inode_.find(change.inode);
  const Object object = known == by_inode_.end() ? 0 : known->second;
  switch (change.what) {
    case Change::kThereDirectory:
    case Change::kThereFile: {
      const bool directory = change.what == Change::kThereDirectory;
      const bool first = objects_.size() == 1;
      // A file with two names is listed twice.
      const Object there =
          !directory && object != 0
              ? object
              : Made(change.inode, {directory, directory ? "" : FileBytes(before_ / change.path)});
      if (directory) now_[there] = safe_[there] = {};
      if (first) break;
      const Step step{{{PlaceOf(change.path), there}}};
      Do(step, now_);
      Do(step, safe_);
      break;
    }
    case Change::kCreate:
    case Change::kMkdir: {
      const bool directory = change.what == Change::kMkdir;
      const Object made = Made(change.inode, {.directory = directory});
      if (directory) now_[made] = safe_[made] = {};
      Take({{{PlaceOf(change.path), made}}});
      break;
    }
    case Change::kWrite:
      objects_.at(object).unsynced.push_back({false, change.offset, change.other});
      break;
    case Change::kTruncate:
      objects_.at(object).unsynced.push_back({true, change.offset});
      break;
    case Change::kSync: {
      if (objects_.at(object).directory) {
        SyncNames(object);
        break;
      }
      File& file = objects_[object];
      file.safe = After(file.safe, file.unsynced);
      file.unsynced.clear();
      break;
    }
    case Change::kRename: {
      const Object moved = At(change.path);
      if (moved == At(change.other)) break;  // two names of one file: nothing happens
      Take({{{PlaceOf(change.path), 0}, {PlaceOf(change.other), moved}}});
      break;
    }
    case Change::kExchange:
      Take({{{PlaceOf(change.path), At(change.other)}, {PlaceOf(change.other), At(change.path)}}});
      break;
    case Change::kLink:
      Take({{{PlaceOf(change.other), At(change.path)}}});
      break;
    case Change::kRemove:
      Take({{{PlaceOf(change.path), 0}}});
      break;
    default:
      throw std::runtime_error("the journal is damaged");
  }
}

std::string Disk::After(const std::string& safe, const std::vector<Write>& writes) {
  std::string bytes = safe;
  for (const Write& write : writes) {
    if (write.length) {
      bytes.resize(write.at);
      continue;
    }
    bytes.resize(std::max<size_t>(bytes.size(), write.at + write.bytes.size()));
    bytes.replace(write.at, write.bytes.size(), write.bytes);
  }
  return bytes;
}

std::string Disk::Bytes(const File& file, Survives survives, uint64_t seed) const {
  std::vector<Write> writes = file.unsynced;
  const auto zeros = [&] {
    for (Write& write : writes) {
      // Bytes that were synced before are kept.
      for (size_t i = 0; i < write.bytes.size(); ++i) {
        const size_t at = write.at + i;
        write.bytes[i] = at < file.safe.size() ? file.safe[at] : '\0';
      }
    }
    return After(file.safe, writes);
  };
  if (survives == Survives::kAll) return After(file.safe, writes);
  if (survives == Survives::kNamesZeros) return zeros();
  if (survives != Survives::kSome || writes.empty()) return file.safe;
  std::mt19937_64 random(seed);
  switch (random() % 4) {
    case 0:
      return file.safe;
    case 1:
      return zeros();
    case 2: {  // a beginning, whose last write is incomplete
      writes.resize(1 + random() % writes.size());
      std::string& torn = writes.back().bytes;
      if (!torn.empty()) torn.resize(random() % (torn.size() + 1));
      return After(file.safe, writes);
    }
    default:
      std::erase_if(writes, [&](const Write& write) { return !write.length && random() % 2 == 0; });
      return After(file.safe, writes);
  }
}

std::vector<Disk::Step> Disk::Chosen(Survives survives, uint64_t seed) const {
  if (survives == Survives::kNothing) return {};
  if (survives != Survives::kSome || unsynced_.empty()) return unsynced_;
  std::mt19937_64 random(seed);
  std::vector<Step> chosen = unsynced_;
  if (random() % 2 == 0) {
    chosen.resize(random() % (unsynced_.size() + 1));
    return chosen;
  }
  // If a step is lost, later ones that involve the same names are lost with it.
  std::set<Place> lost;
  std::erase_if(chosen, [&](const Step& step) {
    const bool gone = random() % 4 == 0 || std::ranges::any_of(step.names, [&](const auto& name) {
                        return lost.contains(name.first);
                      });
    if (!gone) return false;
    for (const auto& [place, object] : step.names) lost.insert(place);
    return true;
  });
  return chosen;
}

void Disk::WriteOut(Object directory, const fs::path& to, const std::map<Object, Names>& names,
                    Survives survives, uint64_t seed) const {
  fs::create_directory(to);
  for (const auto& [name, object] : names.at(directory)) {
    const File& file = objects_[object];
    if (file.directory) {
      WriteOut(object, to / name, names, survives, seed);
    } else {
      std::ofstream(to / name, std::ios::binary) << Bytes(file, survives, seed + object);
    }
  }
}

void Disk::Cut(const fs::path& directory, Survives survives, uint64_t seed) const {
  std::map<Object, Names> names = safe_;
  for (const Step& step : Chosen(survives, seed)) Do(step, names);
  WriteOut(1, directory, names, survives, seed);
}

}  // namespace folio::faults

package memory_test

import (
	"testing"
	"testing/fstest"

	"mainstay.dev/mainstay/internal/limits/memory"
)

const meminfo = "MemTotal:       24603908 kB\nMemFree:        18000000 kB\n"

func TestAvailable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
		fails bool
	}{
		{"not Linux", nil, 0, false},
		{"no control groups", map[string]string{"proc/meminfo": meminfo}, 24603908 << 10, false},
		{"version 2", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/kubepods/pod1/memory.max": "536870912\n"}, 512 << 20, false},
		{"version 2, unlimited", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 24603908 << 10, false},
		{"version 2, a limit above", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
		}, 1 << 30, false},
		{"version 2, as a container sees it", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30, false},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/x\n3:cpuset:/\n",
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "268435456\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 256 << 20, false},
		{"version 1, the group is not to be seen", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/x\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20, false},
		{"more than the machine has", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1099511627776\n"}, 24603908 << 10, false},
		{"not a number", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "lots\n"}, 0, true},
		{"a negative total", map[string]string{"proc/meminfo": "MemTotal: -1 kB\n"}, 0, true},
		{"lines cut short", map[string]string{"proc/meminfo": "MemTotal:", "proc/self/cgroup": "0:\n:::\n"}, 0, false},
		{"a path that leads out", map[string]string{"proc/self/cgroup": "0::/../../..\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for name, content := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			got, err := memory.Available(root)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%d, %v; want %d", got, err, tt.want)
			}
		})
	}
}

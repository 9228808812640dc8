package oom

import (
	"strings"
	"testing"
)

func TestOnlyTheKernelsWordCounts(t *testing.T) {
	t.Parallel()
	const id = "a3cbe690d7520984"
	for record, want := range map[string]bool{
		"3,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/libpod_parent/libpod-ID,task_memcg=/libpod_parent/libpod-ID,task=tail,pid=1,uid=0": true,
		"3,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/machine.slice/libpod-ID.scope,task_memcg=/machine.slice/libpod-ID.scope/container,task=cc1,pid=1,uid=0":    true,
		"3,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/other,task_memcg=/other,task=ID,pid=1,uid=0":                                                                               false,
		"3,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=ID,mems_allowed=0,global_oom,task_memcg=/x,task=y":                                                              false,
		"12,1,2,-;somebody says oom-kill:,oom_memcg=/ID,task=": false,
		"garbage": false,
		"":        false,
	} {
		if got := about([]byte(strings.ReplaceAll(record, "ID", id)), id); got != want {
			t.Errorf("%q: %t", record, got)
		}
	}
}

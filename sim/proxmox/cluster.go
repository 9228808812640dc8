package proxmox

import (
	"slices"
	"time"
)

// Cluster is what a simulation starts with. OneNode and ThreeNodes are ready ones.
type Cluster struct {
	Nodes    []Node // the first is the one whose address clients are given
	Storages []Storage
}

// Node is a machine of the cluster.
type Node struct {
	Name     string
	Address  string // as it is shown; nothing is dialled
	CPUs     int
	MemoryMB int64    // MiB
	SpoolMB  int64    // room for uploads on their way (MiB); 0 is 8 GiB
	Bridges  []string // none is vmbr0
}

// Storage is a storage of the cluster.
type Storage struct {
	ID       string
	Kind     string // dir, nfs, lvmthin, lvm or zfspool
	Content  []string
	Nodes    []string // where it is; none is everywhere
	Shared   bool     // the same volumes on every node (nfs always is)
	SizeGB   int64    // GiB on each node; 0 is 256
	Disabled bool
}

// OneNode is the machine that the recorded exchanges come from.
func OneNode() Cluster {
	return Cluster{
		Nodes: []Node{{Name: "pve1", Address: "192.0.2.10", CPUs: 2, MemoryMB: 24105}},
		Storages: []Storage{{
			ID: "local", Kind: "dir", Content: []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import"},
		}},
	}
}

// ThreeNodes is a cluster with a storage of each kind.
func ThreeNodes() Cluster {
	c := Cluster{Storages: []Storage{
		{ID: "local", Kind: "dir", Content: []string{"iso", "vztmpl", "import", "backup"}},
		{ID: "local-lvm", Kind: "lvmthin", Content: []string{"images", "rootdir"}},
		{ID: "tank", Kind: "zfspool", Content: []string{"images", "rootdir"}, Nodes: []string{"pve1", "pve2"}},
		{ID: "thick", Kind: "lvm", Content: []string{"images"}},
		{ID: "shared", Kind: "nfs", Shared: true, Content: []string{"images", "iso", "import", "snippets"}, SizeGB: 2048},
	}}
	for _, n := range []string{"1", "2", "3"} {
		c.Nodes = append(c.Nodes, Node{Name: "pve" + n, Address: "192.0.2.1" + n, CPUs: 32, MemoryMB: 131072})
	}
	return c
}

// Latencies are how long things take, before Options.Scale. Zero fields take what the real one was seen to need.
type Latencies struct {
	Request      time.Duration // every request
	Unauthorized time.Duration // before a 401 is answered
	Fork         time.Duration // from a task's beginning to its first effect
	CloneLinked  time.Duration
	CopyPerGiB   time.Duration // full clones, imports and uploads
	Create       time.Duration
	Template     time.Duration
	Start        time.Duration
	Stop         time.Duration
	Destroy      time.Duration
	Resize       time.Duration
}

func (l Latencies) withDefaults() Latencies {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&l.Request, 5*time.Millisecond)
	def(&l.Unauthorized, 3*time.Second)
	def(&l.Fork, 20*time.Millisecond)
	def(&l.CloneLinked, 900*time.Millisecond)
	def(&l.CopyPerGiB, 5*time.Second)
	def(&l.Create, 400*time.Millisecond)
	def(&l.Template, 200*time.Millisecond)
	def(&l.Start, 1200*time.Millisecond)
	def(&l.Stop, 700*time.Millisecond)
	def(&l.Destroy, 600*time.Millisecond)
	def(&l.Resize, 300*time.Millisecond)
	return l
}

// node is a Node at work.
type node struct {
	Node
	index     int
	offline   string        // the text of a 595; empty when it answers
	daemon    bool          // pvedaemon is down: what pveproxy does not answer itself is refused
	slow      float64       // makes everything about disks so many times slower; 0 is 1
	spoolFree int64         // bytes
	leftovers []string      // what broken uploads left in /var/tmp
	joined    time.Time     // when it booted
	phase     time.Duration // when its pvestatd looks
	active    []*task       // in the order in which they began
	archive   []*task       // in the order in which they ended
}

func (n *node) bridge(name string) bool { return slices.Contains(n.Bridges, name) }

package proxmox

import (
	"slices"
	"strconv"
	"strings"
)

// task finds a task by the name in the path.
func (c *call) task() (*task, UPID, error) {
	u, ok := ParseUPID(c.get("upid"))
	if !ok {
		return nil, u, wrongField("upid", "unable to parse worker upid")
	}
	return c.tasks[u.String()], u, nil
}

// ofUser says whether a task is of who asks: of the same user or token, or of a token of the user.
func ofUser(who, owner string) bool {
	name, _, _ := strings.Cut(owner, "!")
	return who == owner || who == name
}

func (c *call) mayRead(node, owner string) error {
	if ofUser(c.who, owner) {
		return nil
	}
	return c.access.check(c.who, "/nodes/"+node, "Sys.Audit")
}

func getTaskStatus(c *call) (any, error) {
	t, u, err := c.task()
	if err != nil {
		return nil, err
	}
	if err := c.mayRead(u.Node, u.User); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, wrongField("upid", "no such task")
	}
	row := t.row()
	row["status"] = "running"
	if t.exit != "" {
		row["status"], row["exitstatus"] = "stopped", t.exit
	}
	return row, nil
}

func (t *task) row() object {
	row := object{"upid": t.upid, "node": t.node, "pid": t.pid, "pstart": t.pstart, "starttime": t.start.Unix(), "type": t.kind, "id": t.id}
	name, id, isToken := strings.Cut(t.who, "!")
	row["user"] = name
	if isToken {
		row["tokenid"] = id
	}
	return row
}

// listed is a task in a list: its end is called status there.
func (t *task) listed() object {
	row := t.row()
	if t.exit == "" {
		delete(row, "tokenid")
		row["user"], row["status"], row["saved"] = t.who, "RUNNING", "0"
		return row
	}
	row["status"], row["endtime"] = t.exit, t.end.Unix()
	return row
}

func getTaskLog(c *call) (any, error) {
	t, u, err := c.task()
	if err != nil {
		return nil, err
	}
	if err := c.mayRead(u.Node, u.User); err != nil {
		return nil, err
	}
	lines := []string{"unable to open file - No such file or directory"}
	if t != nil {
		if lines = t.log; len(lines) == 0 {
			lines = []string{"no content"}
		}
	}
	out := []object{}
	start, limit := c.page()
	for i, l := range lines {
		if i >= start && (limit == 0 || len(out) < limit) {
			out = append(out, object{"n": i + 1, "t": l})
		}
	}
	return numberedList{out, len(lines)}, nil
}

// page are the start and limit of a list; a limit of 0 is none.
func (c *call) page() (start, limit int) {
	limit = 50
	if c.has("start") {
		start = atoi(c.get("start"))
	}
	if c.has("limit") {
		limit = atoi(c.get("limit"))
	}
	return start, limit
}

func getTaskIndex(c *call) (any, error) {
	if _, _, err := c.task(); err != nil {
		return nil, err
	}
	return []object{{"name": "log"}, {"name": "status"}}, nil
}

func stopTask(c *call) (any, error) {
	t, u, err := c.task()
	if err != nil {
		return nil, err
	}
	if !ofUser(c.who, u.User) {
		if err := c.access.check(c.who, "/nodes/"+u.Node, "Sys.Modify"); err != nil {
			return nil, err
		}
	}
	if t == nil {
		return nil, wrongField("upid", "no such task")
	}
	if t.exit == "" {
		t.stop = errInterrupted
		t.cancel()
	}
	return nil, nil //nolint:nilnil // the answer is null
}

func getTasks(c *call) (any, error) {
	n := c.node()
	all := c.access.has(c.who, "/nodes/"+n.Name, "Sys.Audit")
	source, vmid := c.get("source"), c.get("vmid")
	var rows []object
	list := slices.Concat(n.archive, n.active)
	for _, t := range slices.Backward(list) {

		active := t.exit == ""
		switch {
		case !all && c.who != t.who:
		case source == "active" && !active, (source == "" || source == "archive") && active:
		case vmid != "" && t.id != vmid:
		case c.flag("errors") && (t.exit == "OK" || active):
		case c.get("typefilter") != "" && t.kind != c.get("typefilter"):
		case c.get("userfilter") != "" && !strings.Contains(t.who, c.get("userfilter")):
		case c.has("since") && t.start.Unix() < int64(atoi(c.get("since"))), c.has("until") && t.start.Unix() > int64(atoi(c.get("until"))):
		default:
			rows = append(rows, t.listed())
		}
	}
	start, limit := c.page()
	out := []object{}
	for i, r := range rows {
		if i >= start && (limit == 0 || len(out) < limit) {
			out = append(out, r)
		}
	}
	return numberedList{out, len(rows)}, nil
}

// getClusterTasks are the latest of every node. A token does not see its own here: they are taken for its user's.
func getClusterTasks(c *call) (any, error) {
	out := []object{}
	all := c.access.has(c.who, "/", "Sys.Audit")
	for _, n := range c.order {
		list := slices.Concat(n.archive[max(0, len(n.archive)-25):], n.active)
		for _, t := range slices.Backward(list) {

			if name, _, _ := strings.Cut(t.who, "!"); !all && name != c.who {
				continue
			}
			row := t.listed()
			if t.exit == "" {
				delete(row, "status")
			}
			row["saved"] = strconv.Itoa(number01(t.exit != ""))
			out = append(out, row)
		}
	}
	return out, nil
}

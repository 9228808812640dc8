package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// FleetProblem is something that is wrong now, and what to do about it.
type FleetProblem struct {
	Code      string         `json:"code" doc:"Names the kind of problem"`
	Severity  string         `json:"severity" enum:"error,warning,info" doc:"error: something that should work does not; warning: do something before it does not"`
	Audience  string         `json:"audience" enum:"viewer,operator,admin,platform" doc:"The role that can do something about it"`
	Subject   ProblemSubject `json:"subject" doc:"What it is about"`
	Title     string         `json:"title" doc:"What is wrong"`
	Why       string         `json:"why" doc:"How it comes about, and what it means"`
	Fix       string         `json:"fix" doc:"What to do"`
	Link      string         `json:"link" doc:"Where the documentation explains it"`
	Since     time.Time      `json:"since" doc:"When this controller found it"`
	Dismissed bool           `json:"dismissed" doc:"You have hidden it from yourself"`
	Remedy    *ProblemRemedy `json:"remedy,omitempty" doc:"A call that mends it, or does the first step"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (FleetProblem) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "remedy")
}

// ProblemSubject is what a problem is about.
type ProblemSubject struct {
	Kind string `json:"kind" enum:"fleet,installation,pool,host,setting" doc:"The kind of object"`
	ID   string `json:"id" doc:"Its ID, or the key of a setting; empty for the fleet"`
	Name string `json:"name" doc:"Its name, for people"`
}

// ProblemRemedy is a call that mends a problem, or does the first step.
type ProblemRemedy struct {
	Summary   string         `json:"summary" doc:"What it does"`
	Operation string         `json:"operation" doc:"The operation, as this description names it"`
	Method    string         `json:"method" doc:"The call's method"`
	Path      string         `json:"path" doc:"The call's path"`
	Body      map[string]any `json:"body,omitempty" doc:"The call's body; what stands in angle brackets is yours to fill in"`
	Command   string         `json:"command" doc:"The same on the command line"`
}

// ids of what a problem is about, and the target that rights are asked over.
type problemNames struct {
	pools                map[string]store.Pool
	installations, hosts map[string]string
}

// problemNames reads what the problems need to be shown.
func (s *Server) problemNames(ctx context.Context, list []problems.Problem) (problemNames, error) {
	n := problemNames{pools: map[string]store.Pool{}, installations: map[string]string{}, hosts: map[string]string{}}
	about := map[problems.Subject]bool{}
	for _, p := range list {
		about[p.Code.Kind().Subject] = true
	}
	if about[problems.OfPool] {
		rows, err := s.store.Pools(ctx)
		if err != nil {
			return n, err
		}
		for _, p := range rows {
			n.pools[p.ID] = p
		}
	}
	if about[problems.OfInstallation] {
		rows, err := s.store.Installations(ctx)
		if err != nil {
			return n, err
		}
		for _, in := range rows {
			n.installations[in.ID] = in.Name
		}
	}
	if about[problems.OfHost] {
		rows, err := s.store.Hosts(ctx)
		if err != nil {
			return n, err
		}
		for _, h := range rows {
			n.hosts[h.ID] = h.Name
		}
	}
	return n, nil
}

// target is what a problem belongs to.
func (n problemNames) target(p problems.Problem) auth.Target {
	switch p.Code.Kind().Subject {
	case problems.OfPool:
		return auth.Target{Installation: n.pools[p.Subject].InstallationID, Pool: p.Subject}
	case problems.OfInstallation:
		return auth.Target{Installation: p.Subject}
	default:
		return auth.Target{}
	}
}

func (n problemNames) subject(p problems.Problem) ProblemSubject {
	out := ProblemSubject{Kind: string(p.Code.Kind().Subject), ID: p.Subject}
	switch p.Code.Kind().Subject {
	case problems.OfFleet:
		out.Kind, out.Name = "fleet", "the fleet"
	case problems.OfPool:
		out.Name = n.pools[p.Subject].Name
	case problems.OfInstallation:
		out.Name = n.installations[p.Subject]
	case problems.OfHost:
		out.Name = n.hosts[p.Subject]
	case problems.OfSetting:
		out.Name = p.Subject
	}
	return out
}

func viewProblem(p problems.Problem, n problemNames, dismissed bool) FleetProblem {
	k := p.Code.Kind()
	out := FleetProblem{
		Code: k.Code, Severity: string(k.Severity), Audience: string(k.Audience), Subject: n.subject(p),
		Title: p.Title, Why: p.Why, Fix: p.Fix, Link: p.Code.Link(), Since: p.Since.UTC(), Dismissed: dismissed,
	}
	if k.Remedy == nil {
		return out
	}
	r, g := k.Remedy.For(p.Subject), mustFind(k.Remedy.Operation)
	path := g.Path
	if at, end := strings.Index(path, "{"), strings.Index(path, "}"); at >= 0 {
		if p.Subject == "" {
			return out // about nothing that the call could name
		}
		path = path[:at] + p.Subject + path[end+1:]
	}
	out.Remedy = &ProblemRemedy{Summary: r.Summary, Operation: g.ID, Method: g.Method, Path: path, Body: r.Body, Command: r.Command}
	return out
}

// problemKey tells problems apart, and sorts those of one severity.
func problemKey(p FleetProblem) string { return p.Code + "/" + p.Subject.ID }

var problemSorts = keys[FleetProblem]{
	"severity": func(p FleetProblem) string {
		return fmt.Sprint(slices.Index(problems.Severities, problems.Severity(p.Severity)))
	},
	"since": func(p FleetProblem) string { return timeKey(p.Since) },
	"code":  func(p FleetProblem) string { return p.Code },
}

// standing is what a caller's problems are made from.
type standing struct {
	list  []problems.Problem
	names problemNames
}

func (s *Server) standing(ctx context.Context) (standing, error) {
	list := s.fleet.Problems()
	names, err := s.problemNames(ctx, list)
	return standing{list, names}, err
}

// of are the problems that somebody may see.
func (x standing) of(who auth.Principal, g auth.Guard, hidden []store.Dismissal) []FleetProblem {
	out := []FleetProblem{}
	for _, p := range x.list {
		if who.Can(g.Role, g.Area, false, x.names.target(p)) {
			out = append(out, viewProblem(p, x.names, slices.Contains(hidden, store.Dismissal{Code: p.Code.String(), Subject: p.Subject})))
		}
	}
	return out
}

type (
	problemsOutput struct{ Body Page[FleetProblem] }
	problemOutput  struct{ Body FleetProblem }
	listProblems   struct {
		PageParams
		Sort      string `query:"sort" enum:"severity,-severity,since,-since,code,-code" default:"severity"`
		Severity  string `query:"severity" enum:"error,warning,info" doc:"Only problems of this severity"`
		Code      string `query:"code" maxLength:"100" doc:"Only problems of this code"`
		Dismissed string `query:"dismissed" enum:"true,false" doc:"Only those that you have hidden, or only those that you have not"`
	}
	// ProblemPath names one in a path; huma looks only into exported types.
	ProblemPath struct {
		Code    string `path:"code" maxLength:"100" doc:"The problem's code"`
		Subject string `query:"subject" maxLength:"200" doc:"The ID of the problem's subject; absent for the fleet"`
	}
)

func addProblems(s *Server) {
	register(s, "list-problems", s.listProblems)
	register(s, "dismiss-problem", s.dismissProblem)
	register(s, "restore-problem", s.restoreProblem)
}

func (s *Server) listProblems(ctx context.Context, in *listProblems) (*problemsOutput, error) {
	x, err := s.standing(ctx)
	if err != nil {
		return nil, err
	}
	hidden, err := s.store.Dismissals(ctx, dismisser(principal(ctx)))
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(x.of(principal(ctx), requestOf(ctx).guard, hidden), func(p FleetProblem) bool {
		return in.Severity != "" && p.Severity != in.Severity || in.Code != "" && p.Code != in.Code ||
			in.Dismissed != "" && p.Dismissed != (in.Dismissed == "true")
	})
	page, err := problemPage(all, in.PageParams, in.Sort)
	return &problemsOutput{page}, err
}

func problemPage(all []FleetProblem, p PageParams, sort string) (Page[FleetProblem], error) {
	return paginate(all, p, sort, problemSorts, problemKey)
}

// dismisser is whose list a dismissal is about. The machine's owner is no user and has one, too.
func dismisser(who auth.Principal) string {
	if who.UserID == "" {
		return string(who.Kind)
	}
	return who.UserID
}

// problem finds one that stands, that the caller may see, with whether they have hidden it.
func (s *Server) problem(ctx context.Context, in *ProblemPath) (FleetProblem, error) {
	x, err := s.standing(ctx)
	if err != nil {
		return FleetProblem{}, err
	}
	hidden, err := s.store.Dismissals(ctx, dismisser(principal(ctx)))
	if err != nil {
		return FleetProblem{}, err
	}
	for _, p := range x.of(principal(ctx), requestOf(ctx).guard, hidden) {
		if p.Code == in.Code && p.Subject.ID == in.Subject {
			return p, nil
		}
	}
	return FleetProblem{}, problem(http.StatusNotFound, fmt.Sprintf("No problem %.100s of %.200q stands.", in.Code, in.Subject),
		"List the problems to see what stands; nothing was changed.")
}

func (s *Server) dismissProblem(ctx context.Context, in *ProblemPath) (*problemOutput, error) {
	return s.setDismissed(ctx, in, true, s.store.Dismiss)
}

func (s *Server) restoreProblem(ctx context.Context, in *ProblemPath) (*struct{}, error) {
	_, err := s.setDismissed(ctx, in, false, s.store.Undismiss)
	return nil, err
}

// setDismissed hides a problem from the caller or shows it again.
func (s *Server) setDismissed(ctx context.Context, in *ProblemPath, to bool, write func(context.Context, string, store.Dismissal) error) (*problemOutput, error) {
	p, err := s.problem(ctx, in)
	if err != nil {
		return nil, err
	}
	type shown struct {
		Dismissed bool `json:"dismissed"`
	}
	before := shown{p.Dismissed}
	p.Dismissed = to
	err = s.do(ctx, change{kind: "problem", id: problemKey(p), name: p.Title, before: before, after: shown{to}}, func(ctx context.Context) error {
		return write(ctx, dismisser(principal(ctx)), store.Dismissal{Code: in.Code, Subject: in.Subject})
	})
	return &problemOutput{p}, err
}

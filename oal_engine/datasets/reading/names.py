"""The names that columns have in public data sets, in several languages, by the kind of cells below them."""

import re
from collections.abc import Iterable

NAMES = {
    "text": """
        text texts fulltext tweet tweets message messages content contents sentence sentences body document
        documents comment comments review reviews post posts title titles abstract abstracts headline
        headlines description summary question questions answer answers utterance query premise hypothesis
        context passage article articles caption quote statement snippet transcript lyrics plot essay email
        sms word words token tokens phrase string response prompt reason texte titre résumé resume
        commentaire avis contenu texto título titulo resumen resumo comentario comentário mensaje mensagem
        frase testo titolo riassunto commento messaggio recensione titel kommentar nachricht zusammenfassung
        beschreibung inhalt satz frage bewertung tekst artikel bericht opmerking samenvatting tytuł tytul
        treść tresc komentarz opis wiadomość zdanie nadpis názov abstrakt metin yorum başlık baslik özet
        cümle teksti otsikko rubrik szöveg cím κείμενο τίτλοσ текст комментарий сообщение заголовок отзыв
        название аннотация 文本 内容 评论 标题 摘要 句子 正文 テキスト 本文 タイトル 題名 要約
        レビュー 텍스트 제목 내용 리뷰 문장 초록 نص عنوان""",
    "label": """
        label labels class classes target targets category categories topic topics sentiment polarity intent
        emotion stance rating score stars grade tag tags gold truth included excluded include exclude
        relevant relevance decision spam toxic hate offensive sarcastic sarcasm fake fraud duplicate irony
        outcome status verdict annotation judgment judgement subjectivity aggression étiquette etiquette
        classe catégorie categorie cible sujet étiqueta etiqueta clase categoría categoria tema sentimiento
        sentimento rótulo rotulo etichetta klasse kategorie etikett thema relevanz stimmung kategoria
        etykieta klasa kategorija etiket sınıf sinif kategori luokka címke oznaka ετικέτα κατηγορία метка
        класс категория тема оценка 标签 类别 分类 情感 ラベル カテゴリ カテゴリー 分類 라벨 레이블 분류 감정 تصنيف""",
    "id": """
        id ids uuid guid index idx nr number pmid doi key rowid identifier kennung nummer numéro numero
        número 编号 番号 번호 номер""",
    "other": """
        name date time timestamp datetime year month day created author authors user username source url
        link journal keywords language lang country city location gender sex age type kind group split fold
        count price volume issue pages publisher venue datum autor auteur fecha data année jahr quelle
        sprache fuente fuentes fonte nom nombre nome land дата автор имя 日期 作者 日付 날짜 length size color
        height weight width value amount""",
}
KINDS = {word: kind for kind, words in NAMES.items() for word in words.split()}
MAX_CHARACTERS, MAX_WORDS = 60, 3  # of a name


def kind_of_name(cell: str) -> str | None:
    """Return the kind of cells below this name: text, label, id or other. Return None if a cell does not look like the
    name of a column."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cell[:MAX_CHARACTERS]))
    if not 0 < len(words) <= MAX_WORDS or len(cell) > MAX_CHARACTERS or re.search(r"[!?;,\"]", cell):
        return None
    return next((KINDS[word] for word in map(str.casefold, reversed(words)) if word in KINDS), None)


def count_names(cells: Iterable[str]) -> int:
    """Count the cells that look like the names of columns."""
    return sum(kind_of_name(cell) is not None for cell in cells)
